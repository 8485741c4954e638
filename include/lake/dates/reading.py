"""Brings the index of a topic's dates up to where its chains are: what is new of each partition, some at once.

A partition that was read to its end costs one listing behind its last commit, and a GET for each newer one. The
others, and those of which something decisive is forgotten, are read from where the index or the floor ends, by parts
that can be saved: whoever is cut off goes on there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from include.lake.dates.event_hours import CalendarPeriod
from include.lake.dates.kept import DateIndex, IndexedFile, IndexedOffsets, NamedTimes, UnusableIndex, latest
from include.lake.protocol.chain import SUMMARY_COMMITS, Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey, parse_cut_key
from include.lake.protocol.cut import Commit
from include.lake.protocol.inventory import stored_partitions
from include.lake.protocol.object_key import digits
from include.lake.protocol.pointer import ReadersPointer
from include.lake.protocol.read_cuts import ReadCut, read_cuts, read_partitions
from include.store.object_store import ObjectStore

__all__ = ["catch_up", "partitions_of"]

_AT_ONCE: Final = 8
# Of a partition in one part.
_MOST_CUTS: Final = 5000
# Files in memory, until what was read is saved.
_MOST_FILES: Final = 100_000


def partitions_of(index: DateIndex) -> list[int]:
    """Kafka partitions of which readers may find something; listings of the live generation alone where that does."""
    live = index.pointer.live
    if not index.complete or live is None:
        return sorted({*index.marks, *read_partitions(index.store, index.topic, index.pointer)})
    return sorted({*index.marks, *stored_partitions(index.store, index.topic, live.generation)})


def catch_up(
    index: DateIndex,
    partitions: Sequence[int],
    *,
    wanted: frozenset[str] | None = None,
    save: Callable[[], object] | None = None,
    on_partition: Callable[[], None] = lambda: None,
) -> None:
    """Read what these partitions have behind the index; `save` is called each time that there is much of it.

    `wanted`: the files of these days are looked for, and no others. Raises `UnusableIndex` where the index is of
    another chain, `Terminal` for a hole, and the store's errors as they come.
    """
    todo, pending = deque(partitions), 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while todo:
            some = [todo.popleft() for _ in range(min(2 * _AT_ONCE, len(todo)))]
            read = partial(_read, index.store, index.topic, index.pointer)
            for partition, part in zip(some, pool.map(read, some, map(index.marks.get, some)), strict=True):
                index.marks[partition] = part.mark
                index.add(part.files, wanted)
                pending += len(part.files)
                if part.more:
                    todo.append(partition)
                else:
                    on_partition()
            if save is not None and pending >= _MOST_FILES:
                save()
                pending = 0
    index.complete = True


class _Part(NamedTuple):
    files: list[IndexedFile]
    mark: IndexedOffsets
    more: bool


def _read(
    store: ObjectStore, topic: TopicKey, pointer: ReadersPointer, partition: int, mark: IndexedOffsets | None
) -> _Part:
    floor, files = pointer.floor(partition), []
    tail: list[Commit] | None = None
    if mark is not None and (mark.next <= floor or any(each.first < floor for each in mark.times)):
        mark = None
    if mark is not None and mark.first >= 0:
        tail = _tail(store, topic, pointer, partition, mark)
    if mark is None:
        mark = IndexedOffsets(floor, False, 0, -1, "", ())
        if len(pointer.entries) > 1:
            files = list(_replaced(store, topic, pointer, partition))
    known = {pointer.live.generation: tail} if tail is not None and pointer.live else None
    cuts = read_cuts(store, topic, pointer, partition, mark.next, commits=known)
    new_cuts = list(cuts if known else islice(cuts, _MOST_CUTS))
    more = known is None and len(new_cuts) == _MOST_CUTS
    times = list(mark.times)
    for cut in new_cuts:
        own = list(_files(cut.chain, cut.commit))
        files += own
        times += _times(cut, own)
    if new_cuts:
        chain, commit = new_cuts[-1]
        info = store.head(chain.commit(commit.first))
        etag = info.etag if info else ""
        mark = IndexedOffsets(commit.next, not more, chain.generation, commit.first, etag, latest(times))
    elif mark.first >= 0:
        mark = mark._replace(whole=True)
    return _Part(files, mark, more)


def _tail(
    store: ObjectStore, topic: TopicKey, pointer: ReadersPointer, partition: int, mark: IndexedOffsets
) -> list[Commit] | None:
    """The live chain's commits behind the mark, None where they are better read otherwise; raises as above."""
    last = ChainKey(topic, mark.generation, partition)
    live = pointer.live
    if not mark.whole or live is None or live.generation != mark.generation:
        info = store.head(last.commit(mark.first))
        if info is None or info.etag != mark.etag:
            raise UnusableIndex(f"{last.commit(mark.first)} is gone or another one")
        if not mark.whole or live is None:
            return None
        last, begin = ChainKey(topic, live.generation, partition), mark.next
    else:
        begin = mark.first
    # "." sorts before all that is named after this offset.
    listed = list(store.list(f"{last}/", start_after=f"{last}/{digits(begin)}."))
    if begin == mark.first and not any(
        info.key == last.commit(begin) and info.etag == mark.etag for info in listed[:1]
    ):
        raise UnusableIndex(f"{last.commit(begin)} is gone or another one")
    firsts = [first for first, kind in (parse_cut_key(info.key, last) for info in listed) if kind == "commit"]
    firsts = [first for first in firsts if first >= mark.next]
    return None if len(firsts) > SUMMARY_COMMITS else list(Chain(store, last).each(firsts))


def _replaced(store: ObjectStore, topic: TopicKey, pointer: ReadersPointer, partition: int) -> Iterator[IndexedFile]:
    """Of cuts that readers read in another generation: a date may have nothing else left."""
    for generation in sorted({entry.generation for entry in pointer.entries}):
        chain = ChainKey(topic, generation, partition)
        for commit in Chain(store, chain).commits(pointer.floor(partition), contiguous=False):
            if pointer.generation_of(partition, commit.first) != generation:
                yield from _files(chain, commit)


def _files(chain: ChainKey, commit: Commit) -> Iterator[IndexedFile]:
    """Those that have records."""
    for file in commit.files:
        if file.records:
            yield IndexedFile(
                file.key,
                chain.generation,
                chain.partition,
                commit.first,
                commit.next,
                file.bytes,
                file.records,
                file.sha256,
                file.min_ts,
                file.max_ts,
            )


def _times(cut: ReadCut, files: Sequence[IndexedFile]) -> Iterator[NamedTimes]:
    commit = cut.commit
    for file in files:
        period = CalendarPeriod.of(file.names(cut.chain.of.prefix))
        if period is not None:
            yield NamedTimes(period, file.records, file.min_ts, file.max_ts, commit.first)
    if commit.n_records and commit.filtered == commit.n_records:
        yield NamedTimes(None, commit.n_records, commit.min_ts, commit.max_ts, commit.first)
