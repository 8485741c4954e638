"""The watermark: the time up to which everything has arrived, of each partition and of all together.

Of a partition it is the greatest event time read, less the bound of disorder, less one microsecond (a later element
may still equal the greatest time less the bound), and at least what a verdict says. Of a set of partitions it is the
least of theirs. An element is late when its time is not after the watermark that the elements before it *in its own
partition* have made: that depends on nothing but the partition, so never on batches.

Definitions: Akidau et al., "Watermarks in Stream Processing Systems", PVLDB 14 (2021), with bounded disorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["NEVER", "IdleVerdict", "PartitionWatermark", "TopicPartition", "joining", "least", "quiet", "resolved"]

NEVER: Final = -(1 << 63)
"""Before any event time: the watermark of a partition of which nothing is known."""

TopicPartition = tuple[str, int]
"""(topic, partition)."""


class IdleVerdict(NamedTuple):
    """From `next_offset` on the watermark of a partition is at least `time` (µs), though no element said so.

    It applies before the record at `next_offset`, live and in each replay, to lateness too.
    """

    place: TopicPartition
    next_offset: int
    time: int


class PartitionWatermark:
    """The watermark of one partition while its records are read in the order of their offsets.

    Args:
        low: what it is before the first record.
        bound_us: how much earlier than the greatest time before it an element may be; None: it never moves by
            elements, so that nothing is late (`ideal` replays).
        verdicts: those of this partition, by offset.
    """

    __slots__ = ("_bound_us", "_next", "_verdicts", "low")

    def __init__(self, low: int, bound_us: int | None, verdicts: Sequence[IdleVerdict] = ()) -> None:
        self.low = low
        self._bound_us = bound_us
        self._verdicts = verdicts
        self._next = 0

    def late(self, offset: int, time: int) -> bool:
        """Take the next element; whether it is late. A late one moves nothing, as its time is no news."""
        if self._next < len(self._verdicts):
            self.reach(offset)
        if time <= self.low:
            return True
        if self._bound_us is not None and time - self._bound_us - 1 > self.low:
            self.low = time - self._bound_us - 1
        return False

    def reach(self, offset: int) -> None:
        """All records before `offset` are read: what verdicts say of it and of what follows it holds now."""
        while self._next < len(self._verdicts) and self._verdicts[self._next].next_offset <= offset:
            self.low = max(self.low, self._verdicts[self._next].time)
            self._next += 1


def least(lows: Iterable[int]) -> int:
    """The watermark of all these partitions; `NEVER` of none."""
    return min(lows, default=NEVER)


def quiet(
    lows: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    active: Iterable[TopicPartition],
    after_us: Mapping[TopicPartition, int],
) -> list[IdleVerdict]:
    """What is decided at the end of a batch of partitions that had nothing in it and have nothing unread.

    They follow the least watermark of the active ones, once that is far enough ahead of theirs. When all are quiet
    nobody knows better, and the watermark stands.

    Args:
        lows: each partition's watermark at the batch's end.
        ends: its next offset there.
        active: those that had records in the batch, or have some that it did not read.
        after_us: of partitions that follow, how far they may be behind before they count as idle.
    """
    busy = frozenset(active)
    if not busy:
        return []
    time = least(lows[place] for place in busy)
    return _behind(dict.fromkeys(after_us.keys() - busy, time), lows, ends, after_us)


def resolved(
    complete_to: Mapping[TopicPartition, int],
    lows: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, int],
) -> list[IdleVerdict]:
    """What is decided of partitions of captured tables at the end of a batch that was cut at resolved records.

    Args:
        complete_to: of each such partition the commit time (µs) up to which it has everything, as its source says.
        lows: see `quiet`.
        ends: see `quiet`.
        bounds: by how much (µs) an element's time may be before its commit.
    """
    times = {place: commit_us - bounds[place] - 1 for place, commit_us in complete_to.items()}
    return _behind(times, lows, ends, dict.fromkeys(times, 0))


def joining(new: Iterable[tuple[TopicPartition, int]], watermark: int) -> list[IdleVerdict]:
    """What is decided of partitions that join a job whose watermark has moved: (place, first offset) of each."""
    if watermark == NEVER:
        return []
    return [IdleVerdict(place, offset, watermark) for place, offset in sorted(new)]


def _behind(
    times: Mapping[TopicPartition, int],
    lows: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    after_us: Mapping[TopicPartition, int],
) -> list[IdleVerdict]:
    return [
        IdleVerdict(place, ends[place], time)
        for place, time in sorted(times.items())
        if time - lows[place] > after_us[place]
    ]
