"""Definitions of the work that a join's batch gives to workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from include.join.bucket import BucketKey, Floor, JoinBucketResult, TakeoverStep
from include.join.takeover import Edition
from include.log.planning.plan import Partition

__all__ = ["CarryOutJoins", "Equip", "JoinBatch"]


@dataclass(frozen=True)
class JoinBatch:
    """What tasks are told of a batch.

    Args:
        ranges: (topic, partition) → offsets start <= offset < end of an input.
        bases: what is added to an offset of such a partition to get the record's rank.
        lives: topic → version below which no row of it lives, of earlier batches and this one.
        floors: the control records of this batch: all buckets have to apply them.
        pointers: bucket → the version of its state to start from.
        complete: after this batch no older record of any row is to come.
        shown: bucket → up to where its outputs are those of the join that takes the place; empty where none does.
        anew: the records are of inputs that are read anew for that one.
        step: a step of the takeover, of all buckets; `begins`: bucket → where it begins.
        only: the slots whose rows are remembered from now on; None: as before.
    """

    ranges: Mapping[Partition, tuple[int, int]]
    bases: Mapping[Partition, int]
    lives: Mapping[str, int]
    floors: tuple[Floor, ...]
    pointers: Mapping[BucketKey, bytes]
    complete: bool
    shown: Mapping[int, bytes] = field(default_factory=dict)
    anew: bool = False
    step: TakeoverStep | None = None
    begins: Mapping[int, bytes] = field(default_factory=dict)
    only: tuple[int, ...] | None = None

    @property
    def wakes_all(self) -> bool:
        """Whether buckets have something to do that no record came for."""
        return bool(self.floors) or self.step is not None or self.only is not None


CarryOutJoins = Callable[[JoinBatch], Iterable[tuple[int, JoinBucketResult]]]
"""Does a batch's work: (bucket, result) of each bucket of the second stage that had some."""
Equip = Callable[[Edition, Edition | None], CarryOutJoins]
"""For a join, and the one that takes its place."""
