"""Resolved records between where a stream is and the newest one: where a batch ends that shall not be all at once.

After an outage the newest resolved record lies hours ahead. Each one in between is as good an end of a batch, so a
backlog is worked off in steps of bounded size, and what is done is committed. Compaction leaves full maps at least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Final

from include.log.planning.plan import BatchGoal, Cut, Partition, ResolvedSource, StreamOffset
from include.log.planning.tail import Tail, resolved_at
from include.log.resolved import PartitionEnds, ResolvedRecord, ResolvedView, furthest

__all__ = ["ResolvedSteps", "size_of"]

_FIRST_WINDOW: Final = 200
_GROWTH: Final = 8


class ResolvedSteps:
    """Walks the resolved topic forwards once, however often it is asked; an error of the log begins the walk anew."""

    def __init__(self, tail: Tail, topic: str, topics: Collection[str]) -> None:
        """`topics`: those of the stream that the resolved topic speaks for."""
        self._tail = tail
        self._topic = topic
        self._topics = frozenset(topics)
        self._walk: Iterator[BatchGoal] | None = None
        self._ahead: BatchGoal | None = None

    def next(self, start: StreamOffset, newest: BatchGoal, most: int) -> BatchGoal:
        """The last record with no more than `most` offsets above `start`, or the first with any; else `newest`.

        `start` never goes back from one call to the next. A single step may be greater than `most`.
        """
        if size_of(start.ends, newest.ends) <= most:
            return newest
        try:
            return self._found(start, newest, most)
        except BaseException:
            self._walk = self._ahead = None
            raise

    def _found(self, start: StreamOffset, newest: BatchGoal, most: int) -> BatchGoal:
        if self._walk is None:
            self._walk = self._walked(start.ends, newest.offset)
        best: BatchGoal | None = None
        while (step := self._ahead or next(self._walk, None)) is not None:
            self._ahead = None
            if not size_of(start.ends, step.ends) or step.offset <= start.reached(self._topic):
                continue
            if step.offset >= newest.offset:
                break
            small = size_of(start.ends, step.ends) <= most
            if best is not None and not small:
                self._ahead = step
                return best
            best = step
            if not small:
                return best
        # What came since the walk began is walked next time.
        self._walk = self._ahead = None
        return best or newest

    def _walked(self, start: Mapping[Partition, int], last: int) -> Iterator[BatchGoal]:
        view, cuts, ends = ResolvedView(), dict[ResolvedSource, Cut](), dict[str, dict[Partition, int]]()
        with closing(self._tail.between(self._first(start, last), last + 1)) as records:
            for offset, value in records:
                record = resolved_at(view, self._topic, offset, value)
                if record is None:
                    continue
                moved = self._wanted(record)
                if record.full:
                    ends[record.source] = moved
                else:
                    ends[record.source].update(moved)
                cuts[self._topic, record.source] = Cut.of(record, offset)
                if moved:
                    yield BatchGoal(dict(cuts), furthest(ends.values()))

    def _first(self, start: Mapping[Partition, int], last: int) -> int:
        """An offset from where on the ends are known before anything above `start` is."""
        begin, _ = self._tail.bounds() or (0, 0)
        window = _FIRST_WINDOW
        while (first := max(begin, last + 1 - window)) > begin:
            view = ResolvedView()
            with closing(self._tail.between(first, last + 1)) as records:
                taken = (resolved_at(view, self._topic, *each) for each in records)
                known = next((record for record in taken if record is not None), None)
            if known is not None and not size_of(start, self._wanted(known)):
                break
            window *= _GROWTH
        return first

    def _wanted(self, record: ResolvedRecord) -> dict[Partition, int]:
        return {at: end for at, end in record.next_offsets.items() if at[0] in self._topics}


def size_of(start: Mapping[Partition, int], ends: PartitionEnds) -> int:
    """Offsets of `ends` that lie above `start`; a partition that `start` lacks had no record there."""
    return sum(max(0, end - start.get(at, 0)) for at, end in ends.items())
