"""The objects that readers of some dates have to read: those that the pointer names, and no other.

An object is of a date when its partition names say so. Objects whose names have no date (a backup's, or names by offset
or field alone) are chosen by the Kafka timestamps of their records, which their commit tells: such an object may hold
records of other dates, too, and one whose records have no timestamps is chosen always.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import SettingsError
from include.lake.chain_key import TopicKey
from include.lake.cut import StoredFile
from include.lake.event_hours import Period
from include.lake.generations import lives
from include.lake.parsing.zones import zone
from include.lake.pointer import Pointer, read_pointer
from include.lake.read_cuts import ReadCut, read_cuts, read_partitions
from include.store.object_store import ObjectStore

__all__ = ["Chosen", "Dates", "ListedObject", "list_objects", "list_topic"]

Chosen = Literal["name", "timestamps", "no timestamps"]
"""By its partition names; by the timestamps of its records; because nothing tells its dates."""

_AT_ONCE: Final = 8


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
        return _begin_ms(self.since, self.zone), _begin_ms(self.until + dt.timedelta(days=1), self.zone)


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


def list_objects(
    store: ObjectStore, topic: TopicKey, pointer: Pointer, partition: int, dates: Dates, *, refused: bool = False
) -> Iterator[ListedObject]:
    """The objects of one Kafka partition, by cut; with `refused` those of refused records, and no other.

    Objects without records are left out. Raises `Terminal` for a hole in what readers find.
    """
    span = dates.span_ms
    for cut in read_cuts(store, topic, pointer, partition):
        for file in cut.commit.files:
            key = cut.chain.parse_data(file.key, cut.commit.first)
            if not file.records or key.refused is not refused:
                continue
            chosen = _chosen(file, Period.of(key.names), dates, span)
            if chosen is not None:
                yield _listed(cut, file, chosen)


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

    Reads every commit, some partitions at once; `progress` hears how many of them are done, and of how many.
    """
    walks = []
    for life in lives(store, prefix, topic):
        pointer = read_pointer(store, life)
        walks += [(life, pointer, partition) for partition in read_partitions(store, life, pointer)]

    def walk(place: tuple[TopicKey, Pointer, int]) -> list[ListedObject]:
        return list(list_objects(store, *place, dates, refused=refused))

    found: list[ListedObject] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done, listed in enumerate(pool.map(walk, walks), 1):
            found += listed
            if progress:
                progress(done, len(walks))
    return sorted(found, key=lambda each: each.key)


def _chosen(file: StoredFile, period: Period | None, dates: Dates, span: tuple[int, int]) -> Chosen | None:
    if period is not None:
        return "name" if dates.since <= period.day <= dates.until else None
    if file.min_ts is None or file.max_ts is None:
        return "no timestamps"
    return "timestamps" if file.min_ts < span[1] and file.max_ts >= span[0] else None


def _listed(cut: ReadCut, file: StoredFile, chosen: Chosen) -> ListedObject:
    return ListedObject(
        file.key,
        cut.chain.partition,
        cut.chain.generation,
        cut.commit.first,
        cut.commit.next,
        file.bytes,
        file.records,
        file.sha256,
        file.min_ts,
        file.max_ts,
        chosen,
    )


def _begin_ms(day: dt.date, zone_name: str) -> int:
    midnight = dt.datetime.combine(day, dt.time.min, zone(zone_name))
    return (midnight - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
