"""The tasks of Spark's workers in a job's batch: ranges of sources in, a bucket's new version and outputs out.

Apart from `jobs_spark`, so that a worker imports neither Spark's driver side nor what plans a batch.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from include.eventtime.algorithm.bucket import drain
from include.eventtime.algorithm.calls import Calls
from include.eventtime.config.definition import DeployedJob, JobSourceDefinition
from include.eventtime.gathering import ElementGathering, ElementWork
from include.eventtime.outputs import Ids, OutputWriter
from include.eventtime.reading import ElementReader
from include.eventtime.restored import RestoredSource
from include.eventtime.work import JobBatch, JobBucketResult
from include.log.kafka.log import record_of
from include.log.planning.slices import Slice, cached_consumer
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Strict
from include.settings.secret import REVEALED
from include.state.bucket import Bucket
from include.state.opening import StatePlace, open_bucket
from include.state.pointer import BucketPointer
from include.store.s3 import store_of

__all__ = ["STAGE", "JobPlan", "ReadAs", "advanced", "apply_frames", "gather"]

STAGE: Final = "keys"
"""The one stage of buckets that a job has."""

ReadAs = tuple[JobSourceDefinition, RestoredSource | None]
"""A source that is declared, and the topic that it was restored to where its records are read."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What every task of a job needs; hashable, as workers keep what they make of it.

    Args:
        job: the process, the sources by rank and the outputs' schema ids, pickled.
        buckets: parts of the state.
        connections: of log, registry and object store, as JSON.
        state: where its buckets are.
    """

    job: bytes = field(repr=False)
    buckets: int
    connections: str = field(repr=False)
    state: StatePlace

    @classmethod
    def of(
        cls,
        job: DeployedJob,
        sources: Sequence[tuple[str, ReadAs | None]],
        ids: Mapping[str, Ids],
        connections: Mapping[str, Strict],
        state: StatePlace,
    ) -> Self:
        """The plan of a job that can run; `sources` by rank: the topic, and as what it is read, if it still is."""
        said = {
            name: each.model_dump(exclude_unset=True, mode="json", context=REVEALED)
            for name, each in connections.items()
        }
        packed = pickle.dumps((job.process, tuple(sources), dict(ids)))
        return cls(packed, job.entry.buckets, json.dumps(said, sort_keys=True), state)


def gather(plan: JobPlan, work: JobBatch, slices: Sequence[Slice]) -> Mapping[int, bytes]:
    """Bucket → what it has to do for the records of these slices, each a partition's whole range; for all buckets."""
    tools = _tools(plan)
    ends = {(each.topic, each.partition): each.end for each in slices}
    lows = {place: work.lows[place] for place in ends}
    gathering = ElementGathering(tools.readers, lows, tools.bounds, work.verdicts, plan.buckets, record_of)
    if slices:
        with cached_consumer(tools.kafka.bootstrap, tools.kafka.options) as consumer:
            for messages in consumer.read(slices):
                for message in messages:
                    gathering.take(
                        message.topic(),
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        message.value(),
                        message,
                    )
    return gathering.work(ends)


def apply_frames(plan: JobPlan, work: JobBatch, bucket: int, frames: list[bytes]) -> JobBucketResult:
    """A bucket's work."""
    tools, pointer = _tools(plan), work.pointers.get(bucket)
    return advanced(
        tools.calls,
        tools.writer,
        work,
        ElementWork.unpack(frames),
        pointer,
        lambda: open_bucket(plan.state, tools.store, STAGE, bucket, pointer),
    )


def advanced(
    calls: Calls[Any],
    writer: OutputWriter,
    work: JobBatch,
    mine: ElementWork,
    pointer: bytes | None,
    opened: Callable[[], AbstractContextManager[Bucket]],
) -> JobBucketResult:
    """Brings a bucket to the watermark behind a batch; it is opened only where it has something to do.

    Again with the same arguments, on the state as it was, it gives the same but for the pointer.

    Args:
        calls: of the job's process.
        writer: encodes outputs.
        work: the batch.
        mine: the bucket's part of it.
        pointer: the bucket's committed version; None: nothing was ever committed.
        opened: opens the bucket at that version.
    """
    _, _, until = work.closed(mine.lows)
    due = None if pointer is None else BucketPointer.from_bytes(pointer).due
    told = mine.late, mine.refused, mine.counts, mine.lows
    if not mine.elements and (due is None or due > until):
        return JobBucketResult(None, [], [], *told)
    with opened() as state:
        made = drain(calls, state, mine.elements, until)
        mine.counts[STAGE, state.opened] += 1
        grown = {name: by for name, by in (("buffered", made.buffered), ("timers", made.timers)) if by}
        moved = bool(made.rows) or made.due != due
        new = state.commit(made.rows, more=grown, due=made.due) if moved else None
    return JobBucketResult(new, writer.write(made.emitted), made.failed, *told)


class _Tools:
    """What tasks of one job share in a process."""

    def __init__(self, plan: JobPlan) -> None:
        said: dict[str, Any] = json.loads(plan.connections)
        self.kafka = Kafka.model_validate(said["kafka"])
        self.store = store_of(StoreSettings.model_validate(said["store"]))
        registry = ConfluentRegistry(Registry.model_validate(said["registry"]))
        process, sources, ids = pickle.loads(plan.job)  # noqa: S301 - the driver of this application made it
        read = [(rank, topic, *read_as) for rank, (topic, read_as) in enumerate(sources) if read_as is not None]
        self.readers = {
            topic: ElementReader(rank, source, process.key, registry, restored)
            for rank, topic, source, restored in read
        }
        self.bounds: dict[str, int | None] = {topic: source.bound_us for _, topic, source, _ in read}
        self.calls: Calls[Any] = Calls(
            process, [topic if read_as is None else read_as[0].topic for topic, read_as in sources]
        )
        self.writer = OutputWriter(process, read[0][2].key, ids)


@functools.lru_cache(maxsize=16)
def _tools(plan: JobPlan) -> _Tools:
    return _Tools(plan)
