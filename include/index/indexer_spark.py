"""The indexer as a Spark application: topics of documents into an index, from where the index itself says.

Tasks read the log, build and send bulks; the driver then does the steps of `batch`. Spark's checkpoint is disposable:
the start comes from the progress documents, and from a topic's beginning for an index that has none. One application
may write several indexes: each has a stream of its own.
"""

from __future__ import annotations

import functools
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from include.clock import Clock, SystemClock
from include.errors import LyrebirdError
from include.index.dead_letters import DeadLetters, dead_group
from include.index.definition import IndexDefinition, indexes_of_application
from include.index.generations.startup import GenerationContext, opened
from include.index.generations.target import ActiveGenerations, fed_indexes, leader_of, together
from include.index.incidents import IndexIncidents
from include.index.indexing import Indexing
from include.index.mapping.evolving import MappingEvolution
from include.index.mapping.file import mapping_of
from include.index.outcome import TaskOutcome
from include.index.progress.steps import start_of
from include.index.server.auto_create import require_no_auto_create
from include.index.server.durability import require_durable
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.index.server_wait import ServerRetry
from include.index.worker import WorkerPlan, work_off
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.planning.slices import Slice, cut_evenly, tasks_for
from include.log.ports import TopicSpec
from include.log.publishing.dead_letter import DeadLetterLimit
from include.log.running import batches_spark
from include.log.running.hosting import Host, host
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["PreparedIndexer", "build", "run_application"]

_OUTAGE_S = 600.0


@dataclass(frozen=True)
class PreparedIndexer:
    """An application that is ready to run."""

    indexing: Indexing
    rows: DataFrame


def build(
    spark: SparkSession,
    deployment: Deployment,
    application: str,
    alias: str,
    *,
    run_folder: RunFolder,
    metrics: Metrics,
    stopped: Callable[[], bool] | None = None,
    clock: Clock | None = None,
) -> PreparedIndexer:
    """Claims the fed generations of `alias` for this process and plans where to read from.

    Waits up to ten minutes for servers that are away; what is prepared waits until `stopped` says so.

    Args:
        spark: session whose workers index.
        deployment: with the index and the connections.
        application: that writes the index.
        alias: of the index.
        run_folder: hears of progress and incidents.
        metrics: of the application.
        stopped: whether to give up waiting; None: as the run folder says.
        clock: None: the system's.

    Raises:
        BackPressure: a server was full for too long.
        Fenced: another process took over.
        SettingsError: the application writes no index, or the deployment lacks a connection.
        Terminal: no index exists, or one lacks the metadata fields, is not durable, or would be made by a write.
        Transient: a server was away for too long.
    """
    clock = clock or SystemClock()
    indexes = indexes_of_application(deployment, application)
    definition, part = indexes[alias], alias if len(indexes) > 1 else ""
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    server, cluster = deployment.one("elasticsearch", Elasticsearch), deployment.one("cluster", Cluster)
    incidents = IndexIncidents(alias, run_folder, clock)
    patience, endless = (
        ServerRetry(
            clock,
            longest_s=longest_s,
            on_wait=lambda error, wait_s: _waiting(run_folder, metrics, incidents, error, wait_s),
            stopped=stopped or run_folder.stop_requested,
        )
        for longest_s in (_OUTAGE_S, math.inf)
    )
    index, options = ElasticsearchIndex(server), dict(kafka.options)
    admin, reader = KafkaAdmin(kafka.bootstrap, options), KafkaReader(kafka.bootstrap, options)
    index_admin = ElasticsearchAdmin(server, index.client)
    patience.call(lambda: require_no_auto_create(index_admin, alias))
    declared = mapping_of(deployment, definition)

    def fed_now() -> ActiveGenerations:
        return fed_indexes(index, alias, incidents.lost, lambda info: incidents.unlike(info, declared))

    fed = patience.call(fed_now)
    patience.call(lambda: require_durable(index_admin, [info.name for info in fed.infos]))
    opening = GenerationContext(
        definition=definition,
        cluster=cluster,
        index=index,
        admin=admin,
        reader=reader,
        owner=f"{os.getpid()}-{uuid.uuid4()}",
        clock=clock,
        on_removed=lambda removed: metrics.count("lyrebird_documents_total", removed, "deleted"),
    )
    # The offsets of all are known before one is claimed, and no dead letter is written before that.
    group = dead_group(application, part=part)
    writer = patience.call(lambda: _dead_writer(kafka.bootstrap, admin, options, definition, group))
    limits = {topic: DeadLetterLimit(definition.dead_ratio, definition.dead_run) for topic in definition.topics}
    letters = DeadLetters(application=application, limits=limits, writer=writer, reader=reader, clock=clock, part=part)
    targets, old = opened(fed.infos, lambda info: patience.call(lambda: opening.target(info, letters)))
    incidents.old(old)
    leader = leader_of(targets, fed.serving)
    plan = WorkerPlan(
        index=leader.name,
        feeds=(),
        bootstrap=kafka.bootstrap,
        kafka_options=options,
        elasticsearch=server,
        registry=registry,
        bulk_bytes=definition.bulk_bytes,
        evolves=MappingEvolution.of(leader.settlement.info, definition, declared),
    )
    batches_spark.warm(spark, functools.partial(work_off, plan))
    progress = leader.settlement.progress
    start = start_of(progress)
    rows = batches_spark.read_stream(
        spark,
        bootstrap=kafka.bootstrap,
        topics=list(start),
        start=start,
        limit=definition.records_per_batch,
        topic_ids={topic: found for of in progress.values() for topic, found in of.topic_ids.items()} or None,
        options={key: str(value) for key, value in options.items()},
    )
    live, behind = together(leader, targets)
    indexing = Indexing(
        plan=plan,
        tasks=functools.partial(_tasks, spark),
        live=live,
        behind=behind,
        fed=lambda: fed_now().without(old),
        opened=lambda info: opening.target(info, letters, leader),
        begins=opening.begins,
        patience=endless,
        metrics=metrics,
        clock=clock,
        incidents=incidents,
        on_part=lambda name, done, total: run_folder.report(
            index=name, done=done, of=total, incidents=incidents.open()
        ),
    )
    return PreparedIndexer(indexing, rows)


def run_application(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Run `application` until its run folder or SIGTERM asks for a stop; the batch at hand is finished first.

    Raises what `build` and `batches_spark.run` raise; what one of several indexes raises ends the others.
    """
    aliases = list(indexes_of_application(deployment, application))
    works = {alias: functools.partial(_run, deployment, alias) for alias in aliases}
    host(application, works, keep_session=keep_session)


def _run(deployment: Deployment, alias: str, hosted: Host) -> None:
    prepared = build(
        hosted.spark,
        deployment,
        hosted.application,
        alias,
        run_folder=hosted.run_folder,
        metrics=hosted.metrics,
        stopped=lambda: hosted.asked.is_set() or hosted.run_folder.stop_requested(),
    )
    with prepared.indexing.beside():
        hosted.run(prepared.rows, lambda _, batch: prepared.indexing.on_batch(batch))


def _tasks(spark: SparkSession, plan: WorkerPlan, slices: Sequence[Slice]) -> TaskOutcome:
    """`Tasks` on Spark."""
    shares = cut_evenly(slices, tasks_for(slices, spark.sparkContext.defaultParallelism))
    out = TaskOutcome()
    for each in batches_spark.work_off(spark, functools.partial(work_off, plan), shares):
        out.add(each)
    return out


def _dead_writer(
    bootstrap: str, admin: KafkaAdmin, options: Mapping[str, Any], definition: IndexDefinition, group: str
) -> KafkaWriter:
    for topic in definition.topics:
        dead = topics.dead(topic, definition.application)
        admin.ensure(TopicSpec(dead, 1, topics.policy(dead)))
    return KafkaWriter(bootstrap, group, dict(options))


def _waiting(
    run_folder: RunFolder, metrics: Metrics, incidents: IndexIncidents, error: LyrebirdError, wait_s: float
) -> None:
    metrics.count("lyrebird_retries_total", 1, "wait")
    incidents.waits(error)
    run_folder.report(waiting=str(error), again_in_s=round(wait_s, 1), incidents=incidents.open())
