"""Lets a topic forget what is older than a day: whole cuts, from the oldest on, in each Kafka partition.

In this order:
 1. the floors rise in the pointer: from then on nobody reads below them
 2. the data objects of the cuts below them are removed, of every generation, and marks of dates that are empty then
 3. of each chain the summaries, then the commits and intents of whole thousands of cuts below its floor, oldest first;
    and what the index of dates has let go of
 4. the pointer notes that it is swept

Cut off at any place, the next one goes on: between 1 and 4 it finds what is not swept. Up to a thousand commits below
a floor stay, and each chain's last one always does: so no chain ever begins anew. A reader that looked the pointer up
before 1 may miss objects: leave it time, or forget what nobody reads.

A cut is old when each of its files is: by its name's day, else by the Kafka timestamps of its records, else by when
its commit was stored. One that is not old keeps all behind it.

The oldest commits may be missing: somebody else removed them, a lifecycle rule of the bucket, say. What they held is
known to be old only where the first commit that is left was stored before the day, as they came before it. Anywhere
else nothing of the partition is forgotten until a person accepts that they are missing: nobody may have seen it yet.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from include.errors import Terminal
from include.lake.backfill.expiry import Eraser
from include.lake.dates.event_hours import CalendarPeriod, folder_of
from include.lake.dates.kept import DateIndex
from include.lake.protocol.chain import Chain, give_up
from include.lake.protocol.chain_key import ChainKey, CutKey, TopicKey, parse_cut_key
from include.lake.protocol.cut import Commit
from include.lake.protocol.object_key import topic_path
from include.lake.protocol.pointer import ReadersPointer, change_pointer, read_pointer
from include.lake.protocol.read_cuts import ReadCut, read_cuts, read_partitions
from include.lake.protocol.runner import Pause, Runner
from include.store.object_store import ObjectStore

__all__ = ["MissingCuts", "PartitionFloor", "TopicForgetting", "forget", "plan_forgetting"]

_AT_ONCE: Final = 16
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PartitionFloor:
    """[`before`, `floor`) of a partition is forgotten; `gone` offsets of it had no commit any more."""

    partition: int
    before: int
    floor: int
    cuts: int
    objects: int
    records: int
    bytes: int
    gone: int


class MissingCuts(NamedTuple):
    """The oldest commits of a partition, of the offsets [first, until), are gone, and nothing shows that they were old.

    Nothing of the partition is forgotten.
    """

    partition: int
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class TopicForgetting:
    """What a topic forgets. `unswept`: partitions of which an earlier one was cut off, and is gone on with."""

    topic: TopicKey
    day: dt.date
    partitions: tuple[PartitionFloor, ...]
    unswept: tuple[int, ...] = ()
    missing: tuple[MissingCuts, ...] = ()

    @property
    def floors(self) -> dict[int, int]:
        """By partition."""
        return {each.partition: each.floor for each in self.partitions}

    @property
    def all_before(self) -> str:
        """The day (ISO) before which everything is that is forgotten; "" where commits were gone that nobody read."""
        return "" if any(each.gone for each in self.partitions) else self.day.isoformat()

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not self.partitions and not self.unswept

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.topic.topic,
            "topic_id": self.topic.topic_id,
            "prefix": self.topic.prefix,
            "before": self.day.isoformat(),
            "partitions": [
                {name: getattr(each, name) for name in PartitionFloor.__slots__} for each in self.partitions
            ],
            "unswept": list(self.unswept),
            "missing": [each._asdict() for each in self.missing],
        }

    def lines(self) -> list[str]:
        """For a person."""
        where = f"{self.topic.prefix}: {self.topic.topic}"
        lines = [
            f"{where}, partition {part.partition}: offsets {part.before:,} to {part.floor - 1:,}, {part.records:,} "
            f"records, {part.objects:,} objects, {part.bytes:,} bytes"
            + (f" ({part.gone:,} of the offsets are gone already: not by `lake forget`)" if part.gone else "")
            for part in self.partitions
        ]
        lines += [f"{where}, partition {each}: goes on with what was begun" for each in self.unswept]
        lines += [
            f"{where}, partition {each.partition}: offsets {each.first:,} to {each.until - 1:,} are missing: it is left"
            for each in self.missing
        ]
        return lines or [f"{where}: nothing is older than {self.day.isoformat()}"]

    def require_whole(self, group: str) -> None:
        """Raise `Terminal` when commits are missing of which a person has to decide; `group`: its name."""
        for each in self.missing:
            raise Terminal(
                "the oldest commits are missing, and nothing shows that they were old: the partition is left as it is",
                group=group,
                topic=self.topic.topic,
                partition=each.partition,
                first=each.first,
                until=each.until,
                day=self.day.isoformat(),
                partitions=len(self.missing),
                fix="Did a lifecycle rule of the bucket take them? Let none touch the group's prefix, and put them back"
                " from older versions of the bucket. To accept that they are gone: "
                f"`lyrebird lake forget {self.topic.topic} --group {group} --before {self.day.isoformat()} "
                "--accept-missing`.",
            )


def plan_forgetting(
    store: ObjectStore, topic: TopicKey, day: dt.date, *, accept_missing: bool = False
) -> TopicForgetting:
    """What is older than `day` (UTC; dates in names as they are written). Writes nothing.

    `accept_missing`: what the oldest commits held that are gone is taken to have been old. Raises `Terminal` for a
    hole anywhere else.
    """
    pointer = read_pointer(store, topic)
    planned = partial(_planned, store, topic, pointer, day, accept_missing=accept_missing)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(planned, read_partitions(store, topic, pointer)))
    floors = tuple(each for each in found if isinstance(each, PartitionFloor))
    missing = tuple(each for each in found if isinstance(each, MissingCuts))
    unswept = sorted(set(_unswept(pointer)) - {each.partition for each in floors})
    return TopicForgetting(topic, day, floors, tuple(unswept), missing)


def _unswept(pointer: ReadersPointer) -> Iterator[int]:
    return (partition for partition, floor in pointer.floors.items() if pointer.swept.get(partition, 0) < floor)


def _planned(
    store: ObjectStore,
    topic: TopicKey,
    pointer: ReadersPointer,
    day: dt.date,
    partition: int,
    *,
    accept_missing: bool,
) -> PartitionFloor | MissingCuts | None:
    before = floor = pointer.floor(partition)
    # Where a generation of the topic began later than at 0 nothing is gone.
    begin = min(pointer.start(each, partition) for each in pointer.entries if each.start(partition) is not None)
    cuts = objects = records = size = gone = 0
    for cut in read_cuts(store, topic, pointer, partition, oldest_gone=True):
        if not cuts and not gone and cut.commit.first > max(before, begin):
            missing = MissingCuts(partition, max(before, begin), cut.commit.first)
            if not (accept_missing or _stored_before(store, cut, _begin_ms(day))):
                return missing
            gone = missing.until - missing.first
            floor = cut.commit.first
        if not _old(store, cut, day):
            break
        floor, cuts = cut.commit.next, cuts + 1
        objects += len(cut.commit.files)
        records += cut.commit.n_records
        size += sum(file.bytes for file in cut.commit.files)
    return None if floor == before else PartitionFloor(partition, before, floor, cuts, objects, records, size, gone)


def _old(store: ObjectStore, cut: ReadCut, day: dt.date) -> bool:
    begin_ms = _begin_ms(day)
    stored = False
    for file in cut.commit.files:
        period = CalendarPeriod.of(cut.chain.parse_data(file.key, cut.commit.first).names)
        if period is not None:
            if period.day >= day:
                return False
        elif file.max_ts is not None:
            if file.max_ts >= begin_ms:
                return False
        else:
            stored = True
    if cut.commit.max_ts is not None and not cut.commit.files:
        return cut.commit.max_ts < begin_ms
    return not stored or _stored_before(store, cut, begin_ms)


def _stored_before(store: ObjectStore, cut: ReadCut, at_ms: int) -> bool:
    info = store.head(cut.chain.commit(cut.commit.first))
    return info is not None and info.modified_us is not None and info.modified_us < at_ms * 1000


def _begin_ms(day: dt.date) -> int:
    return (dt.datetime.combine(day, dt.time.min, dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)


def forget(
    store: ObjectStore,
    eraser: Eraser,
    plan: TopicForgetting,
    on_removed: Callable[[str], None] = lambda _key: None,
    pause: Pause = give_up,
) -> int:
    """Carry it out, and what an earlier one left; gives how many objects were removed. May be done again.

    `pause` decides how long to go on with a store that does not answer, or not now.
    """
    if plan.nothing:
        return 0
    # 1. Nobody reads below the floors.
    pointer = change_pointer(store, plan.topic, lambda now: now.forget(plan.floors, plan.all_before))
    sweep = _Sweep(store, eraser, plan.topic, pointer, Runner(store, pause), on_removed)
    swept = {partition: pointer.floor(partition) for partition in _unswept(pointer)}
    # 2. Data.
    for partition in swept:
        sweep.data(partition)
    sweep.marks()
    # 3. Chains.
    for partition in swept:
        sweep.chains(partition)
    sweep.index()
    # 4. Done so far.
    change_pointer(store, plan.topic, lambda now: now.sweep(swept))
    return sweep.removed


class _Sweep:
    """Removes what lies below the floors of one topic."""

    def __init__(
        self,
        store: ObjectStore,
        eraser: Eraser,
        topic: TopicKey,
        pointer: ReadersPointer,
        runner: Runner,
        on_removed: Callable[[str], None],
    ) -> None:
        self._store, self._eraser, self._topic, self._pointer = store, eraser, topic, pointer
        self._runner, self._on_removed = runner, on_removed
        self._dates: set[tuple[str, ...]] = set()
        self.removed = 0

    def data(self, partition: int) -> None:
        """Every generation's, from where the last sweep ended."""
        since, floor = self._pointer.swept.get(partition, 0), self._pointer.floor(partition)
        for chain in self._generations(partition):
            for commit in Chain(self._store, chain).commits(since, contiguous=False):
                if commit.first >= floor:
                    break
                self._remove(self._files(chain, commit))

    def _files(self, chain: ChainKey, commit: Commit) -> Iterator[str]:
        for file in commit.files:
            names = chain.parse_data(file.key, commit.first).names
            # An hour's folder, and its day's: both have marks.
            self._dates |= {folder for at in (names, names[:-1]) if (folder := folder_of(at))}
            yield file.key

    def marks(self) -> None:
        """A date of which no object is left has no mark either: it would read as a date without records."""
        for names in sorted(self._dates, key=len, reverse=True):
            folder = topic_path(self._topic.prefix, self._topic.topic) + "/".join(names) + "/"
            left = [info.key for info in self._runner.ask(lambda at=folder: list(self._store.list(at)))]  # type: ignore[misc]
            if all(key.rpartition("/")[2].startswith("_") for key in left):
                self._remove(left)

    def chains(self, partition: int) -> None:
        """Whole thousands, as summaries have them: what is left begins with the first one's."""
        floor = self._pointer.floor(partition)
        for chain in self._generations(partition):
            summaries = self._runner.ask(lambda at=chain: [each.key for each in self._store.list(at.summaries)])  # type: ignore[misc]
            firsts = {CutKey.parse(key, self._topic.prefix).first: key for key in summaries}
            border = max((first for first in firsts if first <= floor), default=0)
            if border:
                self._remove(key for first, key in firsts.items() if first < border)
                # One after the other: whatever cuts it off, what is left of a chain has no hole.
                for key in self._below(chain, border):
                    self._delete(key)

    def index(self) -> None:
        """What finalising found forgotten, or wrote anew, since: the index lags a sweep behind."""
        self._remove(self._runner.ask(DateIndex.read(self._store, self._topic, self._pointer).left_over))

    def _below(self, chain: ChainKey, border: int) -> Iterable[str]:
        keys = self._runner.ask(lambda: [each.key for each in self._store.list(f"{chain}/")])
        return [key for key in keys if parse_cut_key(key, chain)[0] < border]

    def _generations(self, partition: int) -> list[ChainKey]:
        return [ChainKey(self._topic, each.generation, partition) for each in self._pointer.reserved]

    def _remove(self, keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._delete, list(keys)))

    def _delete(self, key: str) -> None:
        self._runner.ask(partial(self._eraser.delete, key))
        self.removed += 1
        self._on_removed(key)
