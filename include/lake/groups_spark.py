"""The lake as a Spark application: drivers plan beside Spark's, tasks run wherever Spark has room.

Each range is a Spark job of one task, and where many are due, small ones share a job: so few wait for another's,
executors that come are used and those that go cost the ranges that they had, which are planned again. There is no
checkpoint: the chains in the bucket are.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from include.clock import Clock, SystemClock
from include.errors import Terminal, Transient
from include.lake.check import check_folders
from include.lake.definition import (
    GroupKind,
    LakeGroup,
    backup_prefixes,
    declared_groups,
    group_named,
    groups_of_application,
)
from include.lake.host import GroupHost
from include.lake.incidents.incidents import LakeIncidents, ending_told
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.run_params import UPLOADS
from include.lake.writing.driver import Driver, GroupWatcher
from include.lake.writing.group_metrics import GroupMetrics
from include.lake.writing.lag_offsets import LagOffsets, consumer_group
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, RunTask, Task, run_task
from include.lake.writing.worker import TaskPlace, work
from include.log.kafka.offsets import KafkaOffsets
from include.log.running.batches_spark import session
from include.log.running.failure import first_line
from include.log.running.job_pool_spark import SparkJobPool
from include.log.running.supervised import stop_signal
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from include.store.race_probe import race
from include.store.s3 import S3Store, store_of

__all__ = ["build", "require_honest", "run_application", "task_pool", "upload"]

# A job costs some 50 ms, as a range of few records does; what the first of a job made is told with the last.
_TOGETHER = 16
_PROBE_WRITERS = 8
_PROBE_ROUNDS = 40
# A driver that waits for a store that hangs reports nothing, and its guardian takes that for a stall.
_DRIVER_WAITS_S = 10.0


def task_pool(spark: SparkSession, place: TaskPlace, run: RunTask = run_task) -> SparkJobPool[Task, Outcome]:
    """A pool for one group's tasks."""
    return SparkJobPool(spark, partial(work, place, run=run), _lost, together=_TOGETHER, spare=1)


def _lost(task: Task, failed: BaseException) -> Outcome:
    """Their host went, or Spark did: whatever they wrote stands in the chains."""
    tp = task.range.tp
    reason = first_line(failed)
    error = Transient("a task was lost", system="spark", topic=tp.topic, partition=tp.partition, reason=reason)
    return Outcome(task, None, (), error)


def require_honest(settings: StoreSettings, clients: int = _PROBE_WRITERS, rounds: int = _PROBE_ROUNDS) -> None:
    """Raise `Terminal` unless the store lets one of many conditional writers win, each time."""
    stores = [store_of(settings) for _ in range(clients)]
    try:
        verdict = race(stores, f"{socket.gethostname()}-{uuid.uuid4()}", rounds=rounds)
    finally:
        for store in stores:
            store.close()
    if not verdict.honest:
        raise Terminal(
            "the object store does not honour conditional writes",
            endpoint=settings.endpoint,
            bucket=settings.bucket,
            broken=list(verdict.broken[:3]),
            rounds=verdict.rounds,
            writers=verdict.writers,
            fix="Exactly once rests on them: use a store that has them (If-None-Match, If-Match).",
        )


def build(
    spark: SparkSession,
    deployment: Deployment,
    groups: Mapping[str, LakeGroup],
    clock: Clock,
    incidents: LakeIncidents | None = None,
) -> list[tuple[Driver, GroupReport, SparkJobPool[Task, Outcome]]]:
    """A driver, its report and its pool for each group; `incidents` hears what they hear.

    Raises `SettingsError`, also for folders named like columns, or `Terminal` for a store unfit.
    """
    kafka, settings = deployment.one("kafka", Kafka), deployment.one("store", StoreSettings)
    registry = deployment.one("registry", Registry) if deployment.has("registry") else None
    check_folders(deployment, groups)
    require_honest(settings)
    kept_in = backup_prefixes(declared_groups(deployment))
    writer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
    built = list[tuple[Driver, GroupReport, SparkJobPool[Task, Outcome]]]()
    for name, group in groups.items():
        pool = task_pool(spark, TaskPlace.of(group, kafka, registry, settings, deployment.folder, kept_in=kept_in))
        report = GroupReport(name)
        log = KafkaGroupLog(kafka.bootstrap, kafka.options)
        store = store_of(settings, timeout_s=_DRIVER_WAITS_S)
        watcher: GroupWatcher = report
        if incidents is not None:
            watcher = incidents.of(name, group, partial(_cuts, store), report)
        driver = Driver(name, group, log, store, pool, clock, watcher, writer)
        built.append((driver, report, pool))
    return built


def _cuts(store: S3Store, chain: ChainKey, since: int) -> Iterable[Commit]:
    return Chain(store, chain).commits(since, contiguous=False)


def run_application(
    application: str, deployment: Deployment, *, kind: GroupKind | None = None, flush: bool = False
) -> None:
    """Store what the application's groups have to, until its run folder or SIGTERM asks for a stop.

    Groups on a schedule are stored up to what the log has now, by their policy or all of it (`flush`), and it ends.

    Raises:
        SettingsError: the application has groups of both ways to run, or of another `kind`.
        Fenced: a newer revision of a group has taken over.
        Terminal: the store is unfit, or of a schedule's run something must not go on.
    """
    groups = groups_of_application(deployment, application)
    runs = {group.run for group in groups.values()}
    if len(runs) > 1:
        raise deployment.error(
            ("lake",), "an application has groups that run and groups on a schedule", got=sorted(runs)
        )
    for name, group in groups.items():
        if kind not in (None, group.kind):
            raise deployment.error(
                ("lake", name, "application"), f"this program runs {kind} groups", got=group.kind, allowed=kind
            )
    if runs == {"stream"}:
        _run(application, deployment, groups, GroupHost.serve, Metrics(application).serve(state_folder()))
    else:
        _run(application, deployment, groups, partial(GroupHost.drain, flush=flush))


def upload(names: Sequence[str], deployment: Deployment, *, flush: bool = False) -> list[GroupReport]:
    """Store what the log has now of these groups, by their policy or all of it (`flush`); tells what was stored.

    A group whose stream runs meanwhile may be among them: both carry the same chains on. Raises as `run_application`.
    """
    groups = {name: group_named(deployment, name) for name in names}
    return _run(UPLOADS, deployment, groups, partial(GroupHost.drain, flush=flush))


def _run(
    application: str,
    deployment: Deployment,
    groups: Mapping[str, LakeGroup],
    way: Callable[[GroupHost], None],
    metrics: Metrics | None = None,
) -> list[GroupReport]:
    clock = SystemClock()
    run_folder = RunFolder.from_environment(application, state_folder())
    shown = GroupMetrics(metrics, clock) if metrics else None
    incidents = LakeIncidents(application, run_folder, clock)
    spark = session(application)
    try:
        # Told before the session ends: that may take its time.
        with ending_told(application, again=application == UPLOADS):
            built = build(spark, deployment, groups, clock, incidents)
            try:
                with stop_signal() as stop:
                    hosted = [(driver, report) for driver, report, _ in built]
                    lag = _lag(deployment, groups, clock)
                    way(GroupHost(application, hosted, run_folder, clock, stop.is_set, shown, lag, incidents))
            finally:
                for *_, pool in built:
                    pool.close()
    finally:
        spark.stop()
    return [report for _, report, _ in built]


def _lag(deployment: Deployment, groups: Iterable[str], clock: Clock) -> dict[str, LagOffsets]:
    kafka = deployment.one("kafka", Kafka)
    return {
        name: LagOffsets(KafkaOffsets(kafka.bootstrap, consumer_group(name), kafka.options), clock) for name in groups
    }
