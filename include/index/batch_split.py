"""Cuts a long batch into parts, so that what waits is done again in small, and a guardian sees that work goes on.

How large a part is follows from how long the last one took: an index that takes little is no application that hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from include.index.generations.rebuild.ranges import size_of
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice

__all__ = ["PartSize", "parts_of"]

_MOST: Final = 100_000
_FIRST: Final = 5_000
_LEAST: Final = 500
_PART_S: Final = 15.0
_GROWTH: Final = 4


class PartSize:
    """Offsets of the next part, all partitions together: what takes about 15 s, and 500 at least."""

    def __init__(self, most: int = _MOST, least: int = _LEAST) -> None:
        self._most, self._least = most, min(least, most)
        self.offsets = min(_FIRST, most)

    def took(self, offsets: int, seconds: float) -> None:
        """A part of so many offsets took so long, with all waiting in it."""
        # A short part says nothing of how many more would have gone into it.
        if offsets >= self.offsets or seconds > _PART_S:
            wanted = offsets * _PART_S / max(seconds, 0.001)
            self.offsets = int(max(self._least, min(self._most, self.offsets * _GROWTH, wanted)))


def parts_of(batch: BatchPlan, size: PartSize) -> Iterator[list[Slice]]:
    """Parts that make up the batch; each as large as `size` says when it is asked for.

    A part has a slice of each partition, so that all go on together; those of a partition are in the order of the log.
    """
    left = {at: (batch.start.get(at, 0), end) for at, end in batch.ends.items() if end > batch.start.get(at, 0)}
    while left:
        total, most = size_of(left), size.offsets
        part = []
        for (topic, partition), (start, end) in list(left.items()):
            # Rounded up: a part that lacks an offset is no full one, and says nothing of the next.
            until = min(end, start + -((start - end) * most // total))
            part.append(Slice(topic, partition, start, until, batch.topic_ids.get(topic, "")))
            left[topic, partition] = until, end
            if until == end:
                del left[topic, partition]
        yield part
