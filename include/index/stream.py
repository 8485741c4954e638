"""The indexer as a Spark application: a topic of documents into an index, from where the index itself says.

Tasks build and send bulks; the driver then does the steps of `batch`. Spark's checkpoint is disposable: the start
comes from the progress document, and from the topic's beginning for an index that has none.
"""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from include.clock import Clock, SystemClock
from include.errors import LyrebirdError, Terminal, Transient
from include.index.arrow import OUTCOME_SCHEMA, outcome_of
from include.index.batch import Settlement, dead_group
from include.index.definition import IndexDefinition, index_of_application
from include.index.elasticsearch import ElasticsearchIndex
from include.index.generation import IndexName
from include.index.mapping import require_metadata
from include.index.metadata import Origin
from include.index.patience import Patience
from include.index.port import IndexInfo, SearchIndex
from include.index.progress import ProgressKeeper
from include.index.task import TaskOutcome
from include.index.worker import WorkerPlan, work_off
from include.log import topics
from include.log.dead_letter import DeadLetterLimit
from include.log.kafka import KafkaAdmin, KafkaReader
from include.log.kafka_writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.stream import BatchPlan, read_stream, run, session
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.connections import Cluster, Elasticsearch, Kafka, Registry
from include.settings.deployment import Deployment
from include.settings.environment import state_folder

__all__ = ["Indexing", "Prepared", "build", "require_index", "run_application"]

_OUTAGE_S = 600.0
_TRIGGER_S = 0.4
_TASKS = 2


class Indexing:
    """`on_batch` of the running application. One process at a time; a second one is fenced."""

    def __init__(
        self,
        plan: WorkerPlan,
        settlement: Settlement,
        patience: Patience,
        metrics: Metrics,
        topic: str,
        clock: Clock | None = None,
    ) -> None:
        self._plan = plan
        self._settlement = settlement
        self._patience = patience
        self._metrics = metrics
        self._topic = topic
        self._clock = clock or SystemClock()

    def on_batch(self, rows: DataFrame, batch: BatchPlan) -> Mapping[str, Any]:
        """Index a batch whole, waiting for a server that is away; may be called again with the same batch."""
        plan = replace(self._plan, epoch=self._settlement.progress.epoch)

        def work() -> TaskOutcome:
            found = rows.mapInArrow(functools.partial(work_off, plan), OUTCOME_SCHEMA).collect()
            outcome = outcome_of(row.asDict(recursive=True) for row in found)
            if outcome.fault is not None:
                raise outcome.fault
            if outcome.counts["waiting"]:
                self._metrics.count("lyrebird_retries_total", outcome.counts["retries"], "bulk")
                raise Transient("documents wait for the index", system="elasticsearch", reason=outcome.reason)
            return outcome

        outcome = self._patience.call(work)
        progress = self._patience.call(lambda: self._settlement.settle(outcome, batch.ends, batch.topic_ids))
        counts = outcome.counts
        self._metrics.count("lyrebird_documents_total", counts["indexed"], "indexed")
        self._metrics.count("lyrebird_documents_total", counts["deleted"], "deleted")
        self._metrics.count("lyrebird_superseded_total", counts["stale"], "stale")
        self._metrics.count("lyrebird_superseded_total", counts["folded"], "folded")
        self._metrics.count("lyrebird_set_aside_total", counts["dead"], self._topic)
        self._metrics.count("lyrebird_retries_total", counts["retries"], "bulk")
        if progress.complete is not None:
            commit_us = progress.complete.commit_us
            self._metrics.set("lyrebird_position_commit_seconds", commit_us / 1e6, self._topic)
            age_s = max(0.0, (self._clock.now_us() - commit_us) / 1e6)
            self._metrics.set("lyrebird_lag_seconds", age_s, self._topic)
        return counts


@dataclass(frozen=True)
class Prepared:
    """An application that is ready to run."""

    indexing: Indexing
    rows: DataFrame


def build(
    spark: SparkSession,
    deployment: Deployment,
    application: str,
    *,
    run_folder: RunFolder,
    metrics: Metrics,
    clock: Clock | None = None,
) -> Prepared:
    """Claim the index for this process and plan where to read from.

    Waits up to ten minutes for servers that are away. Raises `SettingsError`, `Fenced`, or `Terminal` when the
    index does not exist or lacks the metadata fields.
    """
    clock = clock or SystemClock()
    alias, definition = index_of_application(deployment, application)
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    server, cluster = deployment.one("elasticsearch", Elasticsearch), deployment.one("cluster", Cluster)
    patience = Patience(
        clock,
        longest_s=_OUTAGE_S,
        on_wait=lambda error, wait_s: _waiting(run_folder, metrics, error, wait_s),
        stopped=run_folder.stop_requested,
    )
    index = ElasticsearchIndex(server)
    name = str(IndexName(alias, definition.generation))
    info = patience.call(lambda: require_index(index, name, alias))
    keeper = ProgressKeeper(index, info, definition.topic, f"{os.getpid()}-{uuid.uuid4()}", clock)
    progress = patience.call(keeper.claim)
    options = dict(kafka.options)
    group = dead_group(application, definition.topic)
    settlement = patience.call(
        lambda: Settlement(
            application=application,
            info=info,
            index=index,
            keeper=keeper,
            progress=progress,
            writer=_dead_writer(kafka.bootstrap, group, options, definition, application),
            reader=KafkaReader(kafka.bootstrap, options),
            limit=DeadLetterLimit(definition.dead_ratio, definition.dead_run),
            clock=clock,
        )
    )
    plan = WorkerPlan(
        index=name,
        entity=definition.entity,
        origin=Origin(cluster.name, cluster.type, definition.topic, definition.topic_generation),
        elasticsearch=server,
        registry_url=registry.url,
        bulk_bytes=definition.bulk_bytes,
    )
    _warm(spark, plan)
    resolved = topics.resolved(definition.topic)
    rows = read_stream(
        spark,
        bootstrap=kafka.bootstrap,
        topics=[definition.topic, resolved],
        start={definition.topic: progress.acked, resolved: progress.resolved_acked},
        limit=definition.records_per_batch,
        tasks=_TASKS,
        topic_ids=progress.topic_ids or None,
        options={name: str(value) for name, value in options.items()},
    )
    return Prepared(Indexing(plan, settlement, patience, metrics, definition.topic, clock), rows)


def run_application(application: str, deployment: Deployment) -> None:
    """Run `application` until its run folder or SIGTERM asks for a stop; the batch at hand is finished first.

    Raises what `build` and `include.log.stream.run` raise.
    """
    state = state_folder()
    run_folder = RunFolder.from_environment(application, state)
    metrics = Metrics(application).serve(state)
    spark = session(application)
    try:
        prepared = build(spark, deployment, application, run_folder=run_folder, metrics=metrics)
        run(
            prepared.rows,
            prepared.indexing.on_batch,
            application=application,
            run_folder=run_folder,
            metrics=metrics,
            trigger_s=_TRIGGER_S,
        )
    finally:
        spark.stop()


def _warm(spark: SparkSession, plan: WorkerPlan) -> None:
    """Start Spark's Python workers before the first document comes: that takes seconds."""
    rows = spark.range(0, _TASKS, 1, _TASKS).where("id < 0")
    rows.mapInArrow(functools.partial(work_off, plan), OUTCOME_SCHEMA).collect()


def require_index(index: SearchIndex, name: str, alias: str) -> IndexInfo:
    """The index, fit to be written; raises `Terminal` with the command that makes it so."""
    info = index.describe(name)
    if info is None:
        raise Terminal("index does not exist", index=name, fix=f"Run `lyrebird index create {alias}`.")
    require_metadata(name, info.mapping)
    return info


def _dead_writer(
    bootstrap: str, group: str, options: Mapping[str, Any], definition: IndexDefinition, application: str
) -> KafkaWriter:
    dead = topics.dead(definition.topic, application)
    KafkaAdmin(bootstrap, dict(options)).ensure(TopicSpec(dead, 1, topics.policy(dead)))
    return KafkaWriter(bootstrap, group, dict(options))


def _waiting(run_folder: RunFolder, metrics: Metrics, error: LyrebirdError, wait_s: float) -> None:
    metrics.count("lyrebird_retries_total", 1, "wait")
    run_folder.report(waiting=str(error), again_in_s=round(wait_s, 1))
