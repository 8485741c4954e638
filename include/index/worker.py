"""Works off a Spark worker's share of a batch. Imports no more than that takes, as workers start often.

Ranges of the log come in and what became of their records goes out; the records themselves are read here and never
go through the JVM.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from include.clock import SystemClock
from include.index.bulk.routing import Copies
from include.index.bulk.scheduler import Concurrency
from include.index.bulk.sender import Delivery
from include.index.bulk.witness import Witness
from include.index.feed import Feed
from include.index.mapping.evolving import BodyOf, MappingEvolution
from include.index.outcome import TaskOutcome
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.index.states import States
from include.index.task import IndexTask, Raw
from include.log.planning.slices import Slice, cached_consumer
from include.log.ports import SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.record.json.formats import KeyForm, Keys, ValueForm, Values
from include.settings.connections import Elasticsearch, Registry

__all__ = ["NumberedRange", "WorkerPlan", "work_off", "work_off_range"]

NumberedRange = tuple[int, Slice]
"""A range of a rebuild, and its place among them."""

_PATIENCE_S = 15.0
_MOST_IN_FLIGHT = 4


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker needs to index records; plain values, as it travels.

    Records below `starts` are passed over: this index has them.
    """

    index: str
    feeds: tuple[Feed, ...]
    bootstrap: str
    kafka_options: Mapping[str, Any] = field(repr=False)
    elasticsearch: Elasticsearch
    registry: Registry
    bulk_bytes: int
    epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    patience_s: float = _PATIENCE_S
    evolves: MappingEvolution | None = None


@functools.lru_cache(maxsize=8)
def _server(settings: Elasticsearch) -> ElasticsearchIndex:
    """Kept for as long as the worker lives: a new connection for each batch would cost more than the batch."""
    return ElasticsearchIndex(settings)


@functools.lru_cache(maxsize=8)
def _pace(server: Elasticsearch) -> tuple[Executor, Concurrency]:
    """What the last batch found out of a server's strength holds for the next one."""
    return ThreadPoolExecutor(_MOST_IN_FLIGHT, thread_name_prefix="bulk"), Concurrency(_MOST_IN_FLIGHT)


@functools.lru_cache(maxsize=8)
def _witness(server: Elasticsearch, index: str, topics: tuple[str, ...]) -> Witness:
    """A batch may have one document alone."""
    return Witness(_server(server), index, topics)


@functools.lru_cache(maxsize=8)
def _registry(settings: Registry) -> SchemaRegistry:
    return ConfluentRegistry(settings)


@functools.lru_cache(maxsize=32)
def _formats(settings: Registry, key: KeyForm, value: ValueForm) -> tuple[Keys, Values]:
    registry = _registry(settings)
    return Keys(registry, key), Values(registry, value)


@functools.lru_cache(maxsize=32)
def _evolving(
    server: Elasticsearch, settings: Registry, topic: str, entity: str, value: ValueForm, evolves: MappingEvolution
) -> BodyOf:
    """Kept likewise, so that a schema is new to an index only once."""
    index, registry = _server(server), _registry(settings)
    put_mapping = ElasticsearchAdmin(server, index.client).put_mapping
    return evolves.bodies(Values(registry, value), index.describe, put_mapping, registry, topic, entity, value)


def _formats_of(plan: WorkerPlan, feed: Feed) -> tuple[Keys, BodyOf]:
    own = feed.topic
    keys, values = _formats(plan.registry, own.key, own.value)
    if plan.evolves is None:
        return keys, values
    server = plan.elasticsearch
    return keys, _evolving(server, plan.registry, feed.name, own.entity, own.value, plan.evolves)


def work_off(plan: WorkerPlan, slices: Iterable[Slice]) -> TaskOutcome:
    """One task: index the records of `slices`, then tell what became of them; may be done again, by anybody."""
    server = plan.elasticsearch
    index = _server(server)
    pool, concurrency = _pace(server)
    states = {feed.name: States(feed, _registry(plan.registry), _formats_of(plan, feed)) for feed in plan.feeds}
    task = IndexTask(
        states=states,
        delivery=Delivery(
            functools.partial(index.bulk, plan.index),
            SystemClock(),
            index=plan.index,
            bulk_bytes=plan.bulk_bytes,
            patience_s=plan.patience_s,
            pool=pool,
            concurrency=concurrency,
            witness=_witness(server, plan.index, tuple(feed.name for feed in plan.feeds)),
        ),
        window_bytes=plan.bulk_bytes,
        epochs=plan.epochs,
        copies=Copies(index, plan.index, SystemClock(), plan.patience_s),
    )
    return task.run(_records(plan, _lacking(plan, slices)))


def work_off_range(plan: WorkerPlan, task: NumberedRange) -> tuple[int, TaskOutcome]:
    """`work_off` of one range, told with its number."""
    return task[0], work_off(plan, [task[1]])


def _lacking(plan: WorkerPlan, slices: Iterable[Slice]) -> list[Slice]:
    """What of `slices` the index does not have."""
    begun = [replace(each, start=max(each.start, plan.starts.get((each.topic, each.partition), 0))) for each in slices]
    return [each for each in begun if each.start < each.end]


def _records(plan: WorkerPlan, slices: list[Slice]) -> Iterator[Raw]:
    if not slices:
        return
    with cached_consumer(plan.bootstrap, plan.kafka_options) as consumer:
        for messages in consumer.read(slices):
            yield from [
                (m.topic(), m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1])
                for m in messages
            ]
