"""What commits say of a topic's dates: the objects of each folder that readers read, heads, and times reached.

Commits have no event times, but names have: records below `dt=2026-11-21/hr=10` are of that hour. Where in it a
partition is, the Kafka timestamps of its records tell, kept within the hour: so a backlog of old records moves no
further than their own names say, and a lateness shorter than an hour can be declared for days as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from include.lake.chain import Chain
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.cut import Commit, StoredFile
from include.lake.event_hours import Period, folder_of
from include.lake.finalised import CommittedTimes
from include.lake.generations import lives
from include.lake.object_key import ObjectKey
from include.lake.pointer import Pointer, read_pointer
from include.lake.read_cuts import read_cuts, read_partitions
from include.store.object_store import ObjectStore

__all__ = ["DatedObject", "Folder", "Gathered", "NamedTimes", "committed_times", "gather"]

Folder = tuple[str, ...]
"""Names below the topic down to a date, or to an hour of it."""

_AT_ONCE: Final = 8


class DatedObject(NamedTuple):
    """An object of a date; `first` is that of its cut."""

    key: str
    sha256: str
    records: int
    bytes: int
    topic_id: str
    partition: int
    first: int


class NamedTimes(NamedTuple):
    """Records that were committed together: their period (None: all were filtered), their Kafka timestamps in ms."""

    period: Period | None
    records: int
    min_ts: int | None
    max_ts: int | None


@dataclass
class Gathered:
    """One topic of a group, all its lives. `folders` has those of replaced cuts, too, which may be empty now."""

    topic: str
    heads: dict[str, dict[int, int]] = field(default_factory=dict)
    folders: dict[Folder, list[DatedObject]] = field(default_factory=dict)
    times: dict[tuple[str, int], list[NamedTimes]] = field(default_factory=dict)


def gather(store: ObjectStore, prefix: str, topic: str) -> Gathered:
    """Read every commit that readers follow, some partitions at once.

    The store's errors as they come; `Terminal` for a hole in what readers find.
    """
    found = Gathered(topic)
    walks: list[tuple[TopicKey, Pointer, int]] = []
    for life in lives(store, prefix, topic):
        pointer = read_pointer(store, life)
        found.heads[life.topic_id] = {}
        walks += [(life, pointer, partition) for partition in read_partitions(store, life, pointer)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = list(pool.map(lambda walk: _partition(store, *walk), walks))
    folders: defaultdict[Folder, list[DatedObject]] = defaultdict(list)
    for (life, _, partition), part in zip(walks, parts, strict=True):
        found.times[life.topic_id, partition] = part.times
        if part.head is not None:
            found.heads[life.topic_id][partition] = part.head
        for folder, objects in part.folders.items():
            folders[folder] += objects
    found.folders = dict(folders)
    return found


def committed_times(times: Sequence[NamedTimes], zone_name: str) -> list[CommittedTimes]:
    """The same as event times in a zone."""
    found = []
    for period, records, least, most in times:
        if period is None:
            if least is not None and most is not None:
                found.append(CommittedTimes(records, least, most))
            continue
        begin, end = period.begin_ms(zone_name), period.end_ms(zone_name)
        if begin is not None and end is not None:
            low = begin if least is None else min(max(least, begin), end - 1)
            high = low if most is None else min(max(most, begin), end - 1)
            found.append(CommittedTimes(records, low, high))
    return found


@dataclass
class _Part:
    head: int | None = None
    folders: defaultdict[Folder, list[DatedObject]] = field(default_factory=lambda: defaultdict(list))
    times: list[NamedTimes] = field(default_factory=list)


def _partition(store: ObjectStore, topic: TopicKey, pointer: Pointer, partition: int) -> _Part:
    # Where all is forgotten, everything below the floor was committed.
    part = _Part(head=pointer.floor(partition) or None)
    for cut in read_cuts(store, topic, pointer, partition):
        part.head = cut.commit.next
        dated = list(_dated(cut.chain, cut.commit))
        for file, key in dated:
            one = DatedObject(
                file.key, file.sha256, file.records, file.bytes, topic.topic_id, partition, cut.commit.first
            )
            for folder in _folders(key.names):
                part.folders[folder].append(one)
            part.times.append(NamedTimes(Period.of(key.names), file.records, file.min_ts, file.max_ts))
        commit = cut.commit
        if commit.n_records and commit.filtered == commit.n_records:
            part.times.append(NamedTimes(None, commit.n_records, commit.min_ts, commit.max_ts))
    if len(pointer.entries) > 1:
        for folder in _replaced(store, topic, pointer, partition):
            part.folders.setdefault(folder, [])
    return part


def _replaced(store: ObjectStore, topic: TopicKey, pointer: Pointer, partition: int) -> Iterator[Folder]:
    """Folders of cuts that readers read in another generation: one may have nothing left."""
    for generation in sorted({entry.generation for entry in pointer.entries}):
        chain = ChainKey(topic, generation, partition)
        for commit in Chain(store, chain).commits(pointer.floor(partition), contiguous=False):
            if pointer.generation_of(partition, commit.first) != generation:
                for _, key in _dated(chain, commit):
                    yield from _folders(key.names)


def _dated(chain: ChainKey, commit: Commit) -> Iterator[tuple[StoredFile, ObjectKey]]:
    """The files of a cut that have records and a date."""
    for file in commit.files:
        key = chain.parse_data(file.key, commit.first)
        if file.records and Period.of(key.names) is not None:
            yield file, key


def _folders(names: tuple[str, ...]) -> Iterator[Folder]:
    """That of the period; of an hour that of its day, too."""
    folder, period = folder_of(names), Period.of(names)
    yield folder
    if period is not None and period.hour is not None:
        yield folder[:-1]
