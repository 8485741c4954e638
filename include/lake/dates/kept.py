"""An index of a topic's data objects by date, and how far it goes in each Kafka partition.

    <prefix>/_chain/<topic>~<topic id>/index/state             how far it goes, its files, the dates to be judged
    <prefix>/_chain/<topic>~<topic id>/index/<day>/<digest>    objects of a day, named by what is in the file

Files never change, and only those that `state` names count. It keeps what commits say, of every generation; which of
it is read, the pointer tells whoever asks. So a floor that rises makes nothing of it wrong. It is void where the
pointer's entries are others than it was made with, but for a take-over at or behind its ends; where the last commit
that it has of a partition is another one now; and where something of it is missing or torn: then everything is read
anew. Holes behind its ends are the audit's to find.

Objects whose names have no date are found by the UTC days of their records' timestamps, or in every case
(`ANY_DAY`) where these are unknown or many.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from include.errors import Terminal
from include.lake.dates.event_hours import CalendarPeriod, folder_of
from include.lake.protocol.canonical import dump, load
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.pointer import ReadersPointer
from include.store.object_store import ObjectStore

__all__ = [
    "ANY_DAY",
    "DateIndex",
    "IndexedFile",
    "IndexedOffsets",
    "NamedTimes",
    "UnusableIndex",
    "folders_of",
    "latest",
]

ANY_DAY: Final = "any"
"""In place of a day: objects that may have records of any."""

_FIELDS: Final = frozenset({"entries", "view", "complete", "floors", "marks", "days", "open"})
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_DAY_MS: Final = 86_400_000
# An object of more days than these is looked at always.
_MOST_DAYS: Final = 3
# Files of a day, until they are made one.
_MOST_FILES: Final = 32
# Periods with witnesses that decide on how far a partition is: neighbours overlap where clocks are put back.
_PERIODS: Final = 3


class UnusableIndex(Exception):
    """What is kept cannot be used: read anew."""


class NamedTimes(NamedTuple):
    """Records that were committed together: their period (None: all were filtered), their Kafka timestamps in ms.

    `first` is that of their cut.
    """

    period: CalendarPeriod | None
    records: int
    min_ts: int | None
    max_ts: int | None
    first: int = 0


class IndexedFile(NamedTuple):
    """A data object that a commit lists; its cut is [first, next)."""

    key: str
    generation: int
    partition: int
    first: int
    next: int
    bytes: int
    records: int
    sha256: str
    min_ts: int | None
    max_ts: int | None

    def names(self, prefix: str) -> tuple[str, ...]:
        """Its partition names; the commit was checked to have a name of the lake."""
        below = self.key[len(prefix) + 1 :] if prefix else self.key
        return tuple(below.split("/")[1:-1])

    def days(self, prefix: str) -> Iterator[str]:
        """Under which it is kept."""
        period = CalendarPeriod.of(self.names(prefix))
        if period is not None:
            yield period.day.isoformat()
        elif self.min_ts is None or self.max_ts is None:
            yield ANY_DAY
        else:
            begin, end = self.min_ts // _DAY_MS, self.max_ts // _DAY_MS
            try:
                days = [dt.date.fromordinal(_EPOCH + day).isoformat() for day in range(begin, end + 1)[:_MOST_DAYS]]
            except (OverflowError, ValueError):
                days = []
            yield from days if len(days) == end + 1 - begin else (ANY_DAY,)


class IndexedOffsets(NamedTuple):
    """How far the index goes in a partition: to `next`. `first` (-1: it has no cut) and `etag` are of its last commit.

    `whole`: nothing was left to read. `times` are those that decide how far the partition is.
    """

    next: int
    whole: bool
    generation: int
    first: int
    etag: str
    times: tuple[NamedTimes, ...]


@dataclass
class DateIndex:
    """The index of one life of a topic, as the store has it and with what was read since. One thread at a time."""

    store: ObjectStore
    topic: TopicKey
    pointer: ReadersPointer
    complete: bool = False
    floors: dict[int, int] = field(default_factory=dict)
    marks: dict[int, IndexedOffsets] = field(default_factory=dict)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By day: names of its files."""
    open: set[str] = field(default_factory=set)
    """Folders of dates that were not yet found as their `_SUCCESS` says since something of them changed."""
    fresh: defaultdict[str, dict[str, IndexedFile]] = field(default_factory=lambda: defaultdict(dict))
    """By day and key: what was read since, and is not saved."""
    etag: str | None = None
    saved: bytes = b""

    @property
    def key(self) -> str:
        """Of the state."""
        return f"{self.topic}/index/state"

    @classmethod
    def read(cls, store: ObjectStore, topic: TopicKey, pointer: ReadersPointer) -> DateIndex:
        """As it is kept; an empty one where it is void."""
        index = cls(store, topic, pointer)
        found = store.get(index.key)
        if found is not None:
            index.etag, index.saved = found.info.etag, found.body
            try:
                index._fill(load(found.body, index.key, _FIELDS))
            except (AttributeError, KeyError, TypeError, ValueError, Terminal, UnusableIndex):
                index.clear()
        return index

    def clear(self) -> None:
        """Keep nothing: all is to be read anew, and replaces what stands."""
        self.complete, self.floors, self.marks, self.files, self.open = False, {}, {}, {}, set()
        self.fresh.clear()

    def add(self, files: Iterable[IndexedFile], wanted: frozenset[str] | None = None) -> None:
        """Files of commits, once or more often; of `wanted` days alone where these are given."""
        for file in files:
            for day in file.days(self.topic.prefix):
                if wanted is None or day in wanted:
                    self.fresh[day][file.key] = file
            self.open |= {"/".join(each) for each in folders_of(file.names(self.topic.prefix))}

    def of_day(self, day: str) -> dict[str, IndexedFile]:
        """By key, of all generations, nothing forgotten; `UnusableIndex` when something is missing."""
        return {key: each for key, each in self._all_of(day).items() if each.next > self.pointer.floor(each.partition)}

    def _all_of(self, day: str) -> dict[str, IndexedFile]:
        files: dict[str, IndexedFile] = {}
        for name in self.files.get(day, ()):
            stored = self.store.get(self._file(day, name))
            if stored is None or _digest(stored.body) != name:
                raise UnusableIndex(f"{self._file(day, name)} is missing or torn")
            files |= {row[0]: IndexedFile(*row) for row in orjson.loads(stored.body)}
        return files | self.fresh.get(day, {})

    def reads(self, file: IndexedFile) -> bool:
        """Whether readers read it."""
        return self.pointer.generation_of(file.partition, file.first) == file.generation

    def raise_floors(self) -> None:
        """Open the dates of which something was forgotten since, and drop days of which nothing is left."""
        before, now = self.floors, dict(self.pointer.floors)
        if before == now:
            return
        for day in sorted(self.files):
            if day == ANY_DAY or (self.pointer.forgotten and day >= self.pointer.forgotten):
                continue
            files, left = self._all_of(day).values(), 0
            for file in files:
                if file.next > now.get(file.partition, 0):
                    left += 1
                elif file.next > before.get(file.partition, 0):
                    self.open |= {"/".join(each) for each in folders_of(file.names(self.topic.prefix))}
            if not left:
                del self.files[day]
        self.floors = now

    def left_over(self) -> list[str]:
        """Keys of files that the state does not name, older than it by a day: those of runs that go on are younger."""
        state = self.store.head(self.key)
        if state is None or state.modified_us is None:
            return []
        named = {self.key, *(self._file(day, name) for day, names in self.files.items() for name in names)}
        until_us = state.modified_us - _DAY_MS * 1000
        listed = self.store.list(f"{self.topic}/index/")
        return [each.key for each in listed if each.key not in named and (each.modified_us or until_us) < until_us]

    def save(self) -> bool:
        """Keep it: 1. files of what is fresh, 2. the state that names them. False when another one was faster."""
        files = dict(self.files)
        for day, fresh in self.fresh.items():
            names = files.get(day, ())
            rows = self.of_day(day) if len(names) >= _MOST_FILES else fresh
            if not rows:
                continue
            body = orjson.dumps([list(row) for _, row in sorted(rows.items())])
            name = _digest(body)
            # 1. It says the same whoever writes it, and counts from step 2 on.
            if name not in names:
                self.store.put(self._file(day, name), body)
                files[day] = (*(names if rows is fresh else ()), name)
        body = self._state(files)
        if body == self.saved:
            return True
        # 2. The state.
        if self.etag is None:
            written = self.store.put_if_absent(self.key, body)
        else:
            written = self.store.put_if_match(self.key, body, self.etag)
        if written is None:
            return False
        self.etag, self.saved, self.files = written.etag, body, files
        self.fresh.clear()
        return True

    def _state(self, files: Mapping[str, tuple[str, ...]]) -> bytes:
        return dump(
            {
                "entries": len(self.pointer.entries),
                "view": _view(self.pointer, len(self.pointer.entries)),
                "complete": self.complete,
                "floors": {str(partition): floor for partition, floor in self.floors.items()},
                "marks": {str(partition): _mark_json(mark) for partition, mark in self.marks.items()},
                "days": {day: list(names) for day, names in files.items()},
                "open": sorted(self.open),
            }
        )

    def _fill(self, found: dict[str, Any]) -> None:
        entries = int(found["entries"])
        marks = {int(partition): _mark(value) for partition, value in found["marks"].items()}
        floors = {int(partition): int(floor) for partition, floor in found["floors"].items()}
        if found["view"] != _view(self.pointer, entries) or not _behind(self.pointer, entries, marks):
            raise UnusableIndex("readers read other generations")
        if any(self.pointer.floor(partition) < floor for partition, floor in floors.items()):
            raise UnusableIndex("a floor went down")
        same = entries == len(self.pointer.entries)
        # The chain that was live may go on behind a mark.
        self.marks = {partition: mark._replace(whole=mark.whole and same) for partition, mark in marks.items()}
        self.complete, self.floors = bool(found["complete"]) and same, floors
        self.files = {day: tuple(names) for day, names in found["days"].items()}
        self.open = set(found["open"])

    def _file(self, day: str, name: str) -> str:
        return f"{self.topic}/index/{day}/{name}"


def folders_of(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """That of the period; of an hour that of its day, too; none without a date."""
    folder, period = folder_of(names), CalendarPeriod.of(names)
    if period is None:
        return ()
    return (folder,) if period.hour is None else (folder, folder[:-1])


def latest(times: Iterable[NamedTimes]) -> tuple[NamedTimes, ...]:
    """Those that decide which time two records have reached, whichever zone the periods are of."""
    periods: defaultdict[CalendarPeriod | None, list[NamedTimes]] = defaultdict(list)
    for named_times in times:
        periods[named_times.period].append(named_times)
    kept = _most(periods.pop(None, []))
    enough = 0
    for period in sorted(periods, key=lambda each: (each.day, -1 if each.hour is None else each.hour), reverse=True):  # type: ignore[union-attr]
        kept += _most(periods[period])
        enough += sum(each.records for each in periods[period]) > 1
        if enough == _PERIODS:
            break
    return tuple(kept)


def _most(times: list[NamedTimes]) -> list[NamedTimes]:
    """Of one period: the two that reach furthest, and the one that begins last of those of several records."""
    least = -(1 << 63)
    by_end = sorted(times, key=lambda each: least if each.max_ts is None else each.max_ts, reverse=True)
    several = [each for each in by_end if each.records > 1]
    last = max(several, key=lambda each: least if each.min_ts is None else each.min_ts, default=None)
    return by_end[:2] + ([last] if last is not None and last not in by_end[:2] else [])


def _behind(pointer: ReadersPointer, entries: int, marks: Mapping[int, IndexedOffsets]) -> bool:
    """Whether the entries from that number on hold nothing that the marks have passed."""
    for entry in pointer.entries[entries:]:
        for partition, mark in marks.items():
            start = entry.start(partition)
            if mark.first >= 0 and start is not None and start < mark.next:
                return False
    return True


def _view(pointer: ReadersPointer, entries: int) -> str:
    seen = ReadersPointer(pointer.entries[:entries]).to_bytes()
    return _digest(seen) if len(pointer.entries) >= entries else ""


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def _mark_json(mark: IndexedOffsets) -> list[Any]:
    times = [
        [*((each.period.day.isoformat(), each.period.hour) if each.period else (None, None)), *each[1:]]
        for each in mark.times
    ]
    return [*mark[:-1], times]


def _mark(value: list[Any]) -> IndexedOffsets:
    end, whole, generation, first, etag, times = value
    return IndexedOffsets(
        end, whole, generation, first, etag, tuple(NamedTimes(_period(day, hour), *rest) for day, hour, *rest in times)
    )


def _period(day: str | None, hour: int | None) -> CalendarPeriod | None:
    return None if day is None else CalendarPeriod(dt.date.fromisoformat(day), hour)
