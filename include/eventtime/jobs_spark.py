"""Event time in Spark: workers read sources and advance buckets of the state, the driver commits what they made.

One application may host several jobs: each has a stream, a publisher and a state of its own. Where reading starts
follows from what a publisher has committed; checkpoints are disposable.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from include.clock import SystemClock
from include.errors import SettingsError
from include.eventtime.algorithm.watermark import NEVER
from include.eventtime.committed import CommittedJob, committed_pointers, state_place
from include.eventtime.config.definition import DeployedJob, declared_jobs
from include.eventtime.incidents import JobIncidents
from include.eventtime.opening import JobInputMissing, OpenedJob, opened_job
from include.eventtime.task import STAGE, JobPlan, ReadAs, apply_frames, gather
from include.eventtime.work import CarryOutBuckets, JobBatch, JobBucketResult
from include.log.access import log_access
from include.log.kafka.log import KafkaReader
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice, spread, tasks_for
from include.log.running import batches_spark
from include.log.running.hosting import Host, host
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from include.state.housekeeping import housekeeping
from include.store.s3 import store_of

__all__ = ["carry_out_on", "run"]

_LARGE: Final = 50_000


def run(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Run the jobs of `application` until it is asked to stop; returns after a clean end.

    Raises `SettingsError` for what the deployment files get wrong, `Fenced` when another process took over, and any
    other `LyrebirdError` that ended one of the jobs: the others are stopped then.
    """
    jobs = [job for job in declared_jobs(deployment).values() if job.entry.application == application]
    if not jobs:
        raise SettingsError(
            "the application hosts no job", application=application, fix="Name it in an entry of `eventtime`."
        )
    works = {job.name: functools.partial(_run, deployment, job) for job in jobs}
    host(application, works, keep_session=keep_session)


def _run(deployment: Deployment, job: DeployedJob, hosted: Host) -> None:
    _Hosted(deployment, job, hosted).run()


@dataclass
class _Hosted:
    """One job of an application."""

    deployment: Deployment
    job: DeployedJob
    host: Host

    def run(self) -> None:
        """Until a stop is asked for."""
        kafka = self.deployment.one("kafka", Kafka)
        with log_access(kafka, self.deployment.one("registry", Registry)) as access:
            opened = self.host.once_there(lambda: opened_job(self.job, self.host.application, access), JobInputMissing)
            if opened is None:
                return
            store = store_of(self.deployment.one("store", StoreSettings))

            def pointers() -> list[tuple[tuple[str, int], bytes]]:
                # Asked by a thread of its own.
                with closing(KafkaReader(kafka.bootstrap, dict(kafka.options))) as own:
                    return committed_pointers(own, self.job.topic, STAGE)

            place = state_place(self.job.topic, state_folder())
            with closing(opened.publisher), closing(store), housekeeping(store, place, pointers, access.clock):
                self._stream(opened, kafka)

    def _stream(self, opened: OpenedJob, kafka: Kafka) -> None:
        runner, carry_out = opened.runner, carry_out_on(self.host.spark, self.deployment, self.job, opened)
        rows = batches_spark.read_stream(
            self.host.spark,
            bootstrap=kafka.bootstrap,
            topics=runner.topics,
            start=opened.start,
            cut_at=opened.cut_at,
            total_limit=self.job.entry.records_per_batch,
            slice_s=self.job.entry.slice_s,
            topic_ids=runner.committed.topic_ids,
            options=dict(kafka.options),
        )

        incidents = JobIncidents(self.job.name, self.job.entry, self.host.run_folder, SystemClock())

        def on_batch(_: DataFrame, plan: BatchPlan) -> Mapping[str, Any]:
            counts = runner.run(carry_out, plan)
            self._count(counts, runner.committed)
            told = {name: counts[name] for name in ("read", "outputs", "late", "refused", "failed", "verdicts")}
            return {**told, "incidents": incidents.after_batch(counts, runner.committed.lows)}

        self.host.run(rows, on_batch)

    def _count(self, counts: Mapping[str, int], committed: CommittedJob) -> None:
        count, gauge, name = self.host.metrics.count, self.host.metrics.set, self.job.name
        count("lyrebird_outputs_total", counts.get("outputs", 0), name)
        count("lyrebird_verdicts_total", counts.get("verdicts", 0), name)
        count("lyrebird_set_aside_total", counts.get("failed", 0), name)
        for topic in committed.sources:
            count("lyrebird_late_total", counts.get(f"late {topic}", 0), topic)
            count("lyrebird_set_aside_total", counts.get(f"refused {topic}", 0), topic)
        held = committed.counts()
        gauge("lyrebird_buffered_elements", held["buffered"], name)
        gauge("lyrebird_timers", held["timers"], name)
        gauge("lyrebird_state_bytes", held["bytes"], name)
        known = {place: low for place, low in committed.lows.items() if low != NEVER}
        for (topic, partition), low in known.items():
            behind_s = (max(known.values()) - low) / 1_000_000
            gauge("lyrebird_watermark_behind_seconds", behind_s, f"{name} {topic}/{partition}")
        if committed.watermark != NEVER:
            gauge("lyrebird_watermark_seconds", committed.watermark / 1_000_000, name)


def carry_out_on(
    spark: SparkSession,
    deployment: Deployment,
    job: DeployedJob,
    opened: OpenedJob,
    elsewhere: Mapping[str, ReadAs] | None = None,
    state: Path | None = None,
) -> CarryOutBuckets:
    """Makes what does the work of a job's batches on Spark's workers.

    Args:
        spark: session whose workers do it.
        deployment: with the connections.
        job: as declared.
        opened: the same, with its runner and the ids of its schemas.
        elsewhere: topic → what it is read as, where the job reads topics that others were restored to.
        state: the folder of its state; None: the host's.

    Raises:
        SettingsError: the deployment lacks a connection.
    """
    read_as = elsewhere or {source.topic: (source, None) for source in job.entry.sources}
    connections = {
        "kafka": deployment.one("kafka", Kafka),
        "registry": deployment.one("registry", Registry),
        "store": deployment.one("store", StoreSettings),
    }
    sources = [(topic, read_as.get(topic)) for topic in opened.runner.committed.sources]
    plan = JobPlan.of(job, sources, opened.ids, connections, state_place(job.topic, state or state_folder()))

    def carry_out(work: JobBatch) -> Iterator[tuple[int, JobBucketResult]]:
        slices = [Slice(*place, start, end) for place, (start, end) in sorted(work.ranges.items())]
        cores = spark.sparkContext.defaultParallelism
        # A partition is read by one task: whether an element is late rests on all that came before it there.
        shares = spread(slices, tasks_for(slices, cores)) or [[]]
        return batches_spark.exchange(
            spark,
            functools.partial(gather, plan, work),
            shares,
            functools.partial(apply_frames, plan, work),
            buckets=plan.buckets,
            tasks=1 if len(shares) == 1 else min(cores, plan.buckets),
            keep=sum(each.size for each in slices) > _LARGE,
        )

    return carry_out
