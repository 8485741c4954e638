"""Ranks: the place of each input record among all that a join reads, batch after batch.

Within a batch the order is: topics as they are listed (the control topics first, so that a floor comes before the rows
of its batch), then partitions, then offsets. It follows from the planned ranges alone, so a batch that is done again
gives each record its rank again, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from include.log.planning.plan import Partition

__all__ = ["Ranks"]


@dataclass(frozen=True)
class Ranks:
    """The ranks of one batch.

    Args:
        first: rank of the first offset of each partition's range; partitions with nothing to read have none.
        next: rank at which the batch after this one begins.
    """

    first: Mapping[Partition, int]
    next: int

    @classmethod
    def of(
        cls, topics: Sequence[str], start: Mapping[Partition, int], ends: Mapping[Partition, int], base: int
    ) -> Ranks:
        """Rank the ranges start <= offset < ends, from `base` on.

        A partition that `start` lacks is read from 0. Partitions of topics that are not listed are no input.
        """
        order = {topic: place for place, topic in enumerate(topics)}
        first = {}
        for partition in sorted(
            (each for each in ends if each[0] in order), key=lambda each: (order[each[0]], each[1])
        ):
            size = ends[partition] - start.get(partition, 0)
            if size > 0:
                first[partition] = base
                base += size
        return cls(first, base)

    def place_of(self, rank: int, start: Mapping[Partition, int]) -> tuple[Partition, int]:
        """The record of a rank of this batch: (partition, offset)."""
        partition = max((base, at) for at, base in self.first.items() if base <= rank)[1]
        return partition, rank - self.slice_base(partition, start)

    def slice_base(self, partition: Partition, start: Mapping[Partition, int]) -> int:
        """What is added to an offset of the partition to get its rank."""
        return self.first[partition] - start.get(partition, 0)
