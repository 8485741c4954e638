"""The tasks of Spark's workers in a join's batch: ranges of inputs in, a bucket's new version and outputs out.

Apart from `joins_spark`, so that a worker imports neither Spark's driver side nor what plans a batch.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from include.join.algorithm.rework import BEGIN
from include.join.algorithm.shape import JoinShape
from include.join.bucket import JoinBucketResult, JoinStage, JoinSuccession, apply_work, locate_work
from include.join.gathering import RecordGathering, RecordWork
from include.join.rows.avro_rows import AvroJoin
from include.join.rows.reading import InputReader
from include.join.takeover import Edition
from include.join.work import JoinBatch
from include.log.kafka.log import record_of
from include.log.planning.slices import Slice, cached_consumer
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.secret import REVEALED
from include.state.bucket import Bucket
from include.state.opening import StatePlace, open_bucket
from include.store.s3 import store_of

__all__ = ["JoinPlan", "RowSchemas", "apply_frames", "equipped", "gather", "locate_frames"]


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """What every task of a join needs; hashable, as workers keep what they make of it.

    Args:
        editions: the join, and the one that takes its place if any, pickled.
        connections: of log, registry and object store, as JSON.
        state: where its buckets are.
    """

    editions: bytes = field(repr=False)
    connections: str = field(repr=False)
    state: StatePlace

    @classmethod
    def of(
        cls,
        edition: Edition,
        later: Edition | None,
        kafka: Kafka,
        registry: Registry,
        store: StoreSettings,
        state: StatePlace,
    ) -> Self:
        """Makes the plan of a join that can run.

        Args:
            edition: the join as its state has it.
            later: the one that takes its place; None: there is none.
            kafka: the log.
            registry: of schemas.
            store: the object store with the state.
            state: where the buckets are.
        """
        named = {"kafka": kafka, "registry": registry, "store": store}
        said = {
            name: each.model_dump(exclude_unset=True, mode="json", context=REVEALED) for name, each in named.items()
        }
        return cls(pickle.dumps((edition, later)), json.dumps(said, sort_keys=True), state)


def gather(plan: JoinPlan, work: JoinBatch, slices: Sequence[Slice]) -> Mapping[int, bytes]:
    """Bucket → what it has to do for the records of these slices; an empty share wakes all buckets up."""
    tools = _tools(plan)
    gathering = RecordGathering(tools.anew if work.anew else tools.readers, work.bases, work.lives, tools.buckets)
    if not slices:
        return dict.fromkeys(range(tools.buckets), RecordWork().pack())
    with cached_consumer(tools.kafka.bootstrap, tools.kafka.options) as consumer:
        for messages in consumer.read(slices):
            gathering.take_all(messages, record_of)
    return gathering.work()


def locate_frames(plan: JoinPlan, work: JoinBatch, bucket: int, frames: list[bytes]) -> Mapping[int, bytes]:
    """The first stage's work of a bucket: what the second stage has to do, by bucket."""
    mine = RecordWork.unpack(frames)
    if mine.sightings or work.only is not None:
        with _open(plan, work, "whereabouts", bucket) as state:
            buckets = _tools(plan).buckets
            onward = locate_work(bucket, mine, state, complete=work.complete, buckets=buckets, only=work.only)
            onward[bucket].counts["whereabouts", state.opened] += 1
    else:
        onward = {bucket: mine}
    return {to: each.pack() for to, each in onward.items()}


def apply_frames(plan: JoinPlan, work: JoinBatch, bucket: int, frames: list[bytes]) -> JoinBucketResult:
    """The join's work of a bucket."""
    mine, tools = RecordWork.unpack(frames), _tools(plan)
    if not mine.touches and not work.floors and work.step is None:
        return JoinBucketResult(None, [], [], mine.refused, mine.counts, 0, [0] * len(tools.readers), mine.located)
    succession = None
    if tools.later is not None:
        at = work.shown.get(bucket, BEGIN), work.begins.get(bucket, BEGIN)
        succession = JoinSuccession(tools.later, *at)
    with _open(plan, work, "rows", bucket) as state:
        result = apply_work(mine, work.floors, state, tools.shape, succession, work.step)
        result.counts["rows", state.opened] += 1
    # As plain tuples on the way to the driver.
    result.outputs[:] = map(tuple, result.outputs)  # type: ignore[arg-type]
    return result


def _open(plan: JoinPlan, work: JoinBatch, stage: JoinStage, bucket: int) -> AbstractContextManager[Bucket]:
    return open_bucket(plan.state, _tools(plan).store, stage, bucket, work.pointers.get((stage, bucket)))


class _Tools:
    """What tasks of one join share in a process."""

    def __init__(self, plan: JoinPlan) -> None:
        said: dict[str, Any] = json.loads(plan.connections)
        self.kafka = Kafka.model_validate(said["kafka"])
        self.store = store_of(StoreSettings.model_validate(said["store"]))
        registry = ConfluentRegistry(Registry.model_validate(said["registry"]))
        edition, later = pickle.loads(plan.editions)  # noqa: S301 - the driver of this application made it
        self.buckets: int = edition.checked.join.buckets
        self.shape, self.readers = equipped(edition, registry, edition.slots)
        self.later: JoinShape | None = None
        self.anew: dict[str, InputReader] = {}
        if later is not None:
            anew = [slot for slot in later.slots if slot not in edition.slots]
            self.later, self.anew = equipped(later, registry, anew)


class RowSchemas(Protocol):
    """The part of a registry by which rows are read."""

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """A schema by its id."""


def equipped(
    edition: Edition, registry: RowSchemas, slots: Collection[int]
) -> tuple[JoinShape, dict[str, InputReader]]:
    """An edition's shape, and what reads its inputs of these slots, by topic."""
    checked = edition.checked
    schemas = [each.schema for each in checked.inputs]
    rows = AvroJoin.of(checked.join, checked.plan, schemas, checked.output, registry.schema)
    shape = rows.shape(checked.join, checked.plan, edition.ids, edition.slots)
    return shape, {
        joined_input.topic: InputReader(
            slot, rows.rows[place], joined_input.schema.change, joined_input.located, shape.alone and place == 0, {}
        )
        for place, (slot, joined_input) in enumerate(zip(edition.slots, checked.inputs, strict=True))
        if slot in slots
    }


@functools.lru_cache(maxsize=16)
def _tools(plan: JoinPlan) -> _Tools:
    return _Tools(plan)
