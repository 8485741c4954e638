"""The objects that readers of some dates have to read: those that the pointer names, and no other.

An object is of a date when its partition names say so. Objects whose names have no date (a backup's, or names by offset
or field alone) are chosen by the Kafka timestamps of their records, which their commit tells: such an object may hold
records of other dates, too, and one whose records have no timestamps is chosen always.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import SettingsError
from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.kept import ANY_DAY, DateIndex, IndexedFile, UnusableIndex
from include.lake.dates.reading import catch_up, partitions_of
from include.lake.parsing.zones import zone
from include.lake.protocol.generations import lives
from include.lake.protocol.object_key import QUARANTINE
from include.lake.protocol.pointer import read_pointer
from include.store.object_store import ObjectStore

__all__ = ["Chosen", "Dates", "ListedObject", "list_topic"]

Chosen = Literal["name", "timestamps", "no timestamps"]
"""By its partition names; by the timestamps of its records; because nothing tells its dates."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Dates:
    """Days [since, until] of a zone, both included; `SettingsError` when they are none."""

    since: dt.date
    until: dt.date
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.until < self.since:
            raise SettingsError(
                "dates end before they begin",
                since=self.since.isoformat(),
                until=self.until.isoformat(),
                fix="Give the earlier one first; both are included.",
            )
        try:
            zone(self.zone)
        except ValueError as error:
            raise SettingsError(str(error), fix="Choose a zone of the tz database.") from None

    @property
    def span_ms(self) -> tuple[int, int]:
        """The same as epoch milliseconds, the end excluded."""
        if self.until == dt.date.max:
            return _begin_ms(self.since, self.zone), _begin_ms(self.until, self.zone) + _DAY_MS
        return _begin_ms(self.since, self.zone), _begin_ms(self.until + dt.timedelta(days=1), self.zone)

    @property
    def days(self) -> frozenset[str]:
        """Those under which the index has objects of these dates: as names have them, and of UTC."""
        # Not by dates of UTC: the first or last day of the calendar may begin before it, or end behind it, there.
        begin_ms, end_ms = self.span_ms
        first = min(self.since.toordinal(), _EPOCH_DAY + begin_ms // _DAY_MS)
        last = max(self.until.toordinal(), _EPOCH_DAY + (end_ms - 1) // _DAY_MS)
        days = range(max(first, dt.date.min.toordinal()), min(last, dt.date.max.toordinal()) + 1)
        return frozenset({ANY_DAY, *(dt.date.fromordinal(day).isoformat() for day in days)})


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object to read. The cut is [`first`, `next`); times are epoch milliseconds of its records' timestamps."""

    key: str
    partition: int
    generation: int
    first: int
    next: int
    bytes: int
    records: int
    sha256: str
    min_ts: int | None
    max_ts: int | None
    chosen: Chosen


def list_topic(
    store: ObjectStore,
    prefix: str,
    topic: str,
    dates: Dates,
    *,
    refused: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[ListedObject]:
    """The objects of all partitions of a topic below a group's prefix, of all of its lives, by key.

    Objects without records are left out. Reads what the index has of these dates, and commits behind it.

    Args:
        store: the bucket of the lake.
        prefix: the group's.
        topic: its name.
        dates: days, both included, and their zone.
        refused: objects of refused records, and no others.
        progress: hears how many partitions are done, and of how many.

    Raises:
        Terminal: there is a hole in what readers find behind the index.
        Transient: the store does not answer.
        BackPressure: the store asks to slow down.
    """
    wanted = dates.days
    indexes = [DateIndex.read(store, life, read_pointer(store, life)) for life in lives(store, prefix, topic)]
    partitions = [partitions_of(index) for index in indexes]
    done, total = 0, sum(map(len, partitions))

    def one_more() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(min(done, total), total)

    objects: list[ListedObject] = []
    for index, some in zip(indexes, partitions, strict=True):
        try:
            objects += _listed(index, some, dates, wanted, one_more, refused=refused)
        except UnusableIndex:
            index.clear()
            objects += _listed(index, partitions_of(index), dates, wanted, one_more, refused=refused)
    return sorted(objects, key=lambda each: each.key)


def _listed(
    index: DateIndex,
    partitions: list[int],
    dates: Dates,
    wanted: frozenset[str],
    one_more: Callable[[], None],
    *,
    refused: bool,
) -> Iterator[ListedObject]:
    catch_up(index, partitions, wanted=wanted, on_partition=one_more)
    files: dict[str, IndexedFile] = {}
    for day in wanted:
        files |= index.of_day(day)
    span = dates.span_ms
    for file in files.values():
        names = file.names(index.topic.prefix)
        if index.reads(file) and (names == (QUARANTINE,)) is refused:
            chosen = _chosen(file, CalendarPeriod.of(names), dates, span)
            if chosen is not None:
                yield _object(file, chosen)


def _chosen(file: IndexedFile, period: CalendarPeriod | None, dates: Dates, span: tuple[int, int]) -> Chosen | None:
    if period is not None:
        return "name" if dates.since <= period.day <= dates.until else None
    if file.min_ts is None or file.max_ts is None:
        return "no timestamps"
    return "timestamps" if file.min_ts < span[1] and file.max_ts >= span[0] else None


def _object(file: IndexedFile, chosen: Chosen) -> ListedObject:
    return ListedObject(
        file.key,
        file.partition,
        file.generation,
        file.first,
        file.next,
        file.bytes,
        file.records,
        file.sha256,
        file.min_ts,
        file.max_ts,
        chosen,
    )


def _begin_ms(day: dt.date, zone_name: str) -> int:
    midnight = dt.datetime.combine(day, dt.time.min, zone(zone_name))
    return (midnight - _EPOCH) // dt.timedelta(milliseconds=1)
