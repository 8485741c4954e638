"""Joins in Spark: workers read inputs and apply them to buckets of the state, the driver commits what they made.

Batches end at resolved records of the inputs. One application may host several joins: each has a stream, a publisher
and a state of its own. Where reading starts follows from what a publisher has committed; checkpoints are disposable.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pyspark import RDD
from pyspark.sql import DataFrame

from include.clock import SystemClock
from include.join.bucket import JoinBucketResult
from include.join.committed import CommittedJoin, committed_pointers, state_place
from include.join.config.deployed import DeployedJoin, joins_of_application, spread_topics
from include.join.config.inputs import NotThereYet
from include.join.incidents import JoinIncidents
from include.join.opening import OpenedJoin, opened_join
from include.join.takeover import Edition
from include.join.task import JoinPlan, apply_frames, gather, locate_frames
from include.join.work import CarryOutJoins, JoinBatch
from include.log.access import log_access
from include.log.kafka.log import KafkaReader
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice, cut_evenly, tasks_for
from include.log.running import batches_spark
from include.log.running.hosting import Host, host
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from include.state.bucket import Opened
from include.state.housekeeping import housekeeping
from include.state.opening import StatePlace
from include.store.s3 import store_of

__all__ = ["run"]

_LARGE: Final = 50_000
"""Offsets of a batch whose results may not come to the driver at once."""


def run(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Run the joins of `application` until it is asked to stop; returns after a clean end.

    Raises `SettingsError` for what the deployment files or the joins' files get wrong, `Fenced` when another process
    took over, and any other `LyrebirdError` that ended one of the joins: the others are stopped then.
    """
    joins = joins_of_application(deployment, application)
    works = {join.name: functools.partial(_run, deployment, join) for join in joins}
    host(application, works, keep_session=keep_session)


def _run(deployment: Deployment, join: DeployedJoin, hosted: Host) -> None:
    _Hosted(deployment, join, hosted).run()


@dataclass
class _Hosted:
    """One join of an application."""

    deployment: Deployment
    join: DeployedJoin
    host: Host
    homes: dict[int, RDD[int]] = field(default_factory=dict)

    def run(self) -> None:
        """Until a stop is asked for."""
        kafka = self.deployment.one("kafka", Kafka)
        with log_access(kafka, self.deployment.one("registry", Registry)) as access:
            spread = spread_topics(self.deployment)
            opened = self.host.once_there(
                lambda: opened_join(self.join, self.host.application, access, spread, self._equip), NotThereYet
            )
            if opened is None:
                return
            store = store_of(self.deployment.one("store", StoreSettings))

            def pointers() -> list[tuple[tuple[str, int], bytes]]:
                # Asked by a thread of its own.
                with closing(KafkaReader(kafka.bootstrap, dict(kafka.options))) as own:
                    return committed_pointers(own, self.join.topic)

            with closing(opened.publisher), closing(store), housekeeping(store, self._place, pointers, access.clock):
                self._stream(opened, kafka)

    def _stream(self, opened: OpenedJoin, kafka: Kafka) -> None:
        runner, batch = opened.runner, opened.checked.join.records_per_batch
        incidents = JoinIncidents(
            self.join.name,
            self.join.topic,
            self.host.application,
            self.join.entry.lag_alarm_s,
            self.host.run_folder,
            SystemClock(),
        )
        rows = batches_spark.read_stream(
            self.host.spark,
            bootstrap=kafka.bootstrap,
            topics=runner.topics,
            start=opened.start,
            cut_at=opened.cut_at,
            total_limit=batch,
            topic_ids=opened.topic_ids,
            options=dict(kafka.options),
        )

        def on_batch(_: DataFrame, plan: BatchPlan) -> Mapping[str, Any]:
            counts = runner.run(plan)
            self._count(counts, runner.committed)
            incomplete = runner.committed.counts()["incomplete"]
            refused = {each: counts[f"refused {each}"] for each in runner.topics}
            commits = [cut.position.commit_us for cut in plan.cuts.values()]
            told = {name: counts[name] for name in ("read", "held", "stale")}
            told["requests"] = runner.requests
            return {**told, "incidents": incidents.after_batch(refused, incomplete, min(commits, default=None))}

        self.host.run(rows, on_batch)

    def _count(self, counts: Mapping[str, int], committed: CommittedJoin) -> None:
        count, gauge, name = self.host.metrics.count, self.host.metrics.set, self.join.name
        count("lyrebird_documents_total", counts.get("puts", 0), "put")
        count("lyrebird_documents_total", counts.get("tombstones", 0), "tombstone")
        count("lyrebird_superseded_total", counts.get("stale", 0))
        held = committed.counts()
        for position, (slot, topic) in enumerate(zip(committed.slots, committed.inputs, strict=True)):
            count("lyrebird_filtered_total", counts.get(f"no_join_key {topic}", 0), f"no join key in {topic}")
            count("lyrebird_filtered_total", counts.get(f"below_floor {topic}", 0), f"below the floor of {topic}")
            count("lyrebird_set_aside_total", counts.get(f"refused {topic}", 0), topic)
            gauge("lyrebird_state_rows", held[f"input_{slot}"], f"{name} {topic}")
            gauge("lyrebird_product_outputs", counts.get(f"product {position}", 0), f"{name} {topic}")
        gauge("lyrebird_state_bytes", held["bytes"], name)
        gauge("lyrebird_state_incomplete", held["incomplete"], name)
        for how in get_args(Opened):
            count("lyrebird_state_opened_total", counts.get(how, 0), how)

    @property
    def _place(self) -> StatePlace:
        return state_place(self.join.topic, state_folder())

    def _equip(self, edition: Edition, later: Edition | None) -> CarryOutJoins:
        """What does a batch's work on Spark's workers."""
        plan = JoinPlan.of(
            edition,
            later,
            self.deployment.one("kafka", Kafka),
            self.deployment.one("registry", Registry),
            self.deployment.one("store", StoreSettings),
            self._place,
        )
        located = any(each.located for some in (edition, later) if some for each in some.checked.inputs)
        buckets = edition.checked.join.buckets

        def carry_out(work: JoinBatch) -> Iterator[tuple[int, JoinBucketResult]]:
            slices = [Slice(*at, start, end) for at, (start, end) in sorted(work.ranges.items())]
            cores = self.host.spark.sparkContext.defaultParallelism
            shares = cut_evenly(slices, tasks_for(slices, cores))
            if work.wakes_all:
                shares.append([])
            tasks = 1 if len(shares) == 1 else min(cores, buckets)
            return batches_spark.exchange(
                self.host.spark,
                functools.partial(gather, plan, work),
                shares,
                functools.partial(apply_frames, plan, work),
                buckets=buckets,
                middle=functools.partial(locate_frames, plan, work) if located else None,
                tasks=tasks,
                homes=self._homes(tasks),
                keep=sum(part.size for part in slices) > _LARGE,
            )

        return carry_out

    def _homes(self, tasks: int) -> RDD[int] | None:
        """Where buckets live, of a cluster with several executors."""
        if tasks == 1 or (self.host.spark.sparkContext.master or "local").startswith("local"):
            return None
        if tasks not in self.homes:
            self.homes[tasks] = batches_spark.homes_of(self.host.spark, tasks)
        return self.homes[tasks]
