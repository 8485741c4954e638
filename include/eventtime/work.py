"""Definitions of the work that a job's batch gives to workers, and of a bucket's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from include.eventtime.algorithm.calls import FailedCall
from include.eventtime.algorithm.watermark import IdleVerdict, TopicPartition, least, quiet, resolved
from include.eventtime.gathering import LateRecord, RefusedElement
from include.eventtime.outputs import JobOutput

__all__ = ["BatchEnd", "CarryOutBuckets", "JobBatch", "JobBucketResult"]


@dataclass(frozen=True)
class BatchEnd:
    """The decisions at the end of a batch: driver and buckets come to the same, of the same watermarks.

    Args:
        ends: the next offset of each partition.
        active: partitions with records in the batch, or with some that it does not read.
        after_us: see `watermark.quiet`.
        complete_to: see `watermark.resolved`.
        bounds: see there.
    """

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    active: frozenset[TopicPartition] = frozenset()
    after_us: Mapping[TopicPartition, int] = field(default_factory=dict)
    complete_to: Mapping[TopicPartition, int] = field(default_factory=dict)
    bounds: Mapping[TopicPartition, int] = field(default_factory=dict)

    def verdicts(self, lows: Mapping[TopicPartition, int]) -> list[IdleVerdict]:
        """Those of partitions whose watermark nothing else moves, by what all watermarks are now."""
        of_tables = resolved(self.complete_to, lows, self.ends, self.bounds)
        told = {**lows, **{verdict.place: verdict.time for verdict in of_tables}}
        return of_tables + quiet(told, self.ends, self.active | self.complete_to.keys(), self.after_us)


@dataclass(frozen=True)
class JobBatch:
    """What tasks are told of a batch.

    Args:
        ranges: (topic, partition) → offsets start <= offset < end.
        lows: the watermark of each partition of the job before them.
        watermark: the job's before them.
        closing: see there.
        pointers: bucket → the version of its state to start from.
        verdicts: those that a replay has to repeat.
    """

    ranges: Mapping[TopicPartition, tuple[int, int]]
    lows: Mapping[TopicPartition, int]
    watermark: int
    closing: BatchEnd
    pointers: Mapping[int, bytes]
    verdicts: Mapping[TopicPartition, Sequence[IdleVerdict]] = field(default_factory=dict)

    def closed(self, lows: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, int], list[IdleVerdict], int]:
        """The end of the batch, by the watermarks of the partitions that were read.

        Gives the watermarks of all partitions, the verdicts that are decided, and the job's watermark.
        """
        found = {**self.lows, **lows}
        decided = self.closing.verdicts(found)
        found |= {verdict.place: max(verdict.time, found[verdict.place]) for verdict in decided}
        return found, decided, max(self.watermark, least(found.values()))


@dataclass(frozen=True)
class JobBucketResult:
    """The result of a bucket's work.

    Args:
        pointer: of its state; None: that has not changed.
        outputs: those of one key in order.
        failed: calls that raised.
        late: as `gathering.Work` has them; so are `refused`, `counts` and `lows`.
    """

    pointer: bytes | None
    outputs: list[JobOutput]
    failed: list[FailedCall]
    late: list[LateRecord]
    refused: list[RefusedElement]
    counts: Counter[tuple[str, str]]
    lows: Mapping[TopicPartition, int]


CarryOutBuckets = Callable[[JobBatch], Iterable[tuple[int, JobBucketResult]]]
"""Does a batch's work: (bucket, result) of each bucket."""
