"""A rebuild in a deployment: its index, its topics, and where its ranges are worked off."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn

from include.index.dead_letters import DeadLetters, dead_group
from include.index.deployed import DeployedIndex
from include.index.feed import Feed
from include.index.generations.rebuild.fill import RangePool
from include.index.generations.rebuild.plan import RebuildPlan, make_plan
from include.index.generations.rebuild.run import ProgressReporter, RebuildContext, RebuiltGeneration, rebuild
from include.index.mapping.declared import creation
from include.index.mapping.evolving import MappingEvolution
from include.index.mapping.file import mapping_of
from include.index.progress.document import IndexProgress
from include.index.server.port import IndexInfo
from include.index.states import feed_of
from include.index.worker import WorkerPlan
from include.log import topics
from include.log.kafka.log import KafkaAdmin
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.publishing.dead_letter import DeadLetterLimit
from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry

_NO_LIMIT_MS: Final = 10 * 365 * 86_400_000

__all__ = ["PoolOf", "carry_out", "ending_on_sigterm", "plan_of"]

PoolOf = Callable[[WorkerPlan], RangePool]
_STATUS: Final = 128 + signal.SIGTERM


def plan_of(on: DeployedIndex, *, new: bool = False) -> RebuildPlan:
    """What a rebuild would do now; reads only. Raises `SettingsError`, `Terminal` and `Transient` as `make_plan`."""
    definition = on.definition
    body = creation(on.alias, definition, mapping_of(on.deployment, definition))
    kafka = on.deployment.one("kafka", Kafka)
    admin = KafkaAdmin(kafka.bootstrap, dict(kafka.options))
    kept = [admin.deletions_kept_ms(topic) for topic in definition.topics]
    longest_ms = min((each for each in kept if each is not None), default=_NO_LIMIT_MS)
    return make_plan(
        on.index,
        on.admin,
        on.alias,
        definition.application,
        body,
        begins={topic: on.reader.begin_offsets(topic) for topic in definition.topics},
        ends={topic: on.reader.end_offsets(topic) for topic in definition.topics},
        first=definition.generation,
        now_us=on.clock.now_us(),
        longest_us=longest_ms * 1000,
        new=new,
    )


def carry_out(
    on: DeployedIndex, plan: RebuildPlan, pool_of: PoolOf, tell: ProgressReporter, *, within_s: float
) -> RebuiltGeneration:
    """`run.rebuild` on the deployment's servers; raises what that raises."""
    kafka = on.deployment.one("kafka", Kafka)
    admin = KafkaAdmin(kafka.bootstrap, dict(kafka.options))
    context = RebuildContext(
        index=on.index,
        admin=on.admin,
        reader=on.reader,
        topics=admin,
        clock=on.clock,
        letters=lambda info: _letters(on, kafka, admin, info),
        feed=lambda of: _feed(on, of),
        pool=lambda info, progress: pool_of(_worker_plan(on, info, progress)),
    )
    owner = f"rebuild-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
    with ending_on_sigterm():
        return rebuild(plan, on.definition, context, owner, tell, within_s=within_s)


def _worker_plan(on: DeployedIndex, info: IndexInfo, progress: Mapping[str, IndexProgress]) -> WorkerPlan:
    """Each range begins with no epoch known: older lineages lie before newer ones only within a partition."""
    deployment, definition = on.deployment, on.definition
    kafka = deployment.one("kafka", Kafka)
    return WorkerPlan(
        index=info.name,
        feeds=tuple(_feed(on, of) for of in progress.values()),
        bootstrap=kafka.bootstrap,
        kafka_options=dict(kafka.options),
        elasticsearch=deployment.one("elasticsearch", Elasticsearch),
        registry=deployment.one("registry", Registry),
        bulk_bytes=definition.bulk_bytes,
        evolves=MappingEvolution.of(info, definition, mapping_of(deployment, definition)),
    )


def _feed(on: DeployedIndex, of: IndexProgress) -> Feed:
    return feed_of(on.deployment.one("cluster", Cluster), on.definition, of.topic, of)


@contextlib.contextmanager
def _letters(on: DeployedIndex, kafka: Kafka, admin: KafkaAdmin, info: IndexInfo) -> Iterator[DeadLetters]:
    """Of this generation alone: the application's own writer goes on beside it."""
    definition = on.definition
    for topic in definition.topics:
        dead = topics.dead(topic, definition.application)
        admin.ensure(TopicSpec(dead, 1, topics.policy(dead)))
    writer = KafkaWriter(kafka.bootstrap, dead_group(definition.application, info), dict(kafka.options))
    try:
        yield DeadLetters(
            application=definition.application,
            limits={topic: DeadLetterLimit(definition.dead_ratio, definition.dead_run) for topic in definition.topics},
            writer=writer,
            reader=on.reader,
            clock=on.clock,
        )
    finally:
        writer.close()


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """In the main thread SIGTERM raises `SystemExit`, so that `finally` is done; elsewhere nothing changes.

    So what a rebuild put aside comes back when its task is stopped, not only when it fails. A second one ends the
    process at once, as by default.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.exit(_STATUS)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
