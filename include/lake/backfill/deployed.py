"""A backfill in a deployment: its groups, its bucket, what its parsers are made with, and one place to run it."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from include.clock import Clock, SystemClock
from include.lake.backfill.comparison import BackfillComparison, compare
from include.lake.backfill.configuration import narrowed
from include.lake.backfill.live_cuts import only_life
from include.lake.backfill.plan import BackfillPlan
from include.lake.backfill.planning import LakeStore, make_plan
from include.lake.backfill.raw_ranges import check_source
from include.lake.backfill.request import BackfillRequest
from include.lake.backfill.rewrite import carry_out, rewrite, tasks_of
from include.lake.backfill.run_registry import Run, begin, run_named
from include.lake.backfill.selection import BackfillSelection
from include.lake.definition import LakeGroup, backup_prefixes, declared_groups
from include.lake.parsing.definition import ParserContext
from include.lake.protocol.inventory import require_stored
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.reading.kept_schemas import KeptRegistry
from include.lake.writing.driver import TaskPool
from include.lake.writing.task import Outcome, Task, patience
from include.lake.writing.worker import TaskPlace, work
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import store_of

__all__ = ["DeployedBackfill", "SequentialPool", "Tell", "deleting", "perform"]

_HEADS_AT_ONCE: Final = 8

Tell = Callable[[int, int], None]
"""Told how many cuts are whole, of how many."""


@dataclass(frozen=True)
class DeployedBackfill:
    """What a backfill finds in a deployment."""

    groups: dict[str, LakeGroup]
    kafka: Kafka
    registry: Registry | None
    settings: StoreSettings
    deployment: Deployment
    bucket: LakeStore

    @classmethod
    def of(cls, deployment: Deployment, clock: Clock | None = None) -> DeployedBackfill:
        """From the deployment's sections; raises `SettingsError`."""
        settings = deployment.one("store", StoreSettings)
        registry = deployment.one("registry", Registry) if deployment.has("registry") else None
        bucket = LakeStore(store_of(settings), patience(clock or SystemClock()))
        return cls(declared_groups(deployment), deployment.one("kafka", Kafka), registry, settings, deployment, bucket)

    def plan(self, request: BackfillRequest) -> BackfillPlan:
        """The plan of a request; raises what `make_plan` does."""
        self.require_stored(request.topic)
        asked = request.asked(self.groups)
        group = self.groups[asked.group]
        registry = ConfluentRegistry(self.registry) if self.registry else None
        kept = KeptRegistry(registry, self.bucket.store, backup_prefixes(self.groups)) if registry else None
        context = ParserContext(self.deployment.folder, kept)
        log = KafkaRanges(self.kafka.bootstrap, self.kafka.options) if asked.origin == "kafka" else None
        raw_prefix = self.groups[asked.raw].prefix if asked.origin == "raw" else asked.raw
        return make_plan(self.bucket, asked, group, context, raw_prefix=raw_prefix, log=log, topic_id=request.topic_id)

    def place(self, asked: BackfillSelection) -> TaskPlace:
        """Where tasks find everything, with the parser that is asked for."""
        wanted = narrowed(self.groups[asked.group], asked)
        kept_in = backup_prefixes(self.groups)
        return TaskPlace.of(wanted, self.kafka, self.registry, self.settings, self.deployment.folder, kept_in=kept_in)

    def require_stored(self, topic: str) -> None:
        """Raise `SettingsError` for a topic of which no partition group has anything, with the nearest names."""
        prefixes = [group.prefix for group in self.groups.values() if group.kind == "partition"]
        require_stored(self.bucket.store, prefixes, topic)

    def run_named(self, group: str, topic: str, name: str, topic_id: str = "") -> Run:
        """A run that has begun, of a topic of a partition group."""
        life = only_life(self.bucket.store, self.groups[group].prefix, topic, topic_id)
        return run_named(self.bucket.store, life, name)


class SequentialPool(TaskPool):
    """In this process: a task at a time, carried out when it is asked what has finished."""

    slots = together = 1

    def __init__(self, place: TaskPlace) -> None:
        self._place = place
        self._submitted: list[Task] = []

    @override
    def submit(self, *tasks: Task) -> None:
        self._submitted += tasks

    @override
    def finished(self) -> list[Outcome]:
        """Blocks for as long as the task takes."""
        tasks, self._submitted = self._submitted, []
        return [work(self._place, task, rewrite) for task in tasks]


def perform(
    bucket: LakeStore, plan: BackfillPlan, name: str, pool: TaskPool, clock: Clock, tell: Tell
) -> BackfillComparison:
    """Begin the run or go on with it, check its sources, write all cuts, compare them. Readers see none of it.

    Called again under the same name it goes on.

    Args:
        bucket: the bucket of the lake.
        plan: what is made again; where the run has begun, the plan that it began with holds.
        name: the run's; "" for the plan's own.
        pool: runs the tasks, each of cuts that follow on each other.
        clock: measures the pauses before tasks are tried again.
        tell: hears how many cuts are whole, of how many.

    Returns:
        The comparison of the cuts made with those that readers read now.

    Raises:
        Terminal: the run is another request's or parser's, or given up; or a raw object is not as its commit says.
        LyrebirdError: the first error of a task that cannot pass, or that came too often (see `carry_out`).
    """
    run = begin(bucket.store, plan, name)
    with ThreadPoolExecutor(_HEADS_AT_ONCE) as threads:
        for _ in threads.map(lambda source: check_source(bucket.store, source), run.plan.sources):
            pass
    writer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
    whole: set[tuple[int, int]] = set()
    total = len(run.plan.cuts)
    tell(0, total)

    def on_outcome(outcome: Outcome) -> None:
        whole.update((outcome.task.range.tp.partition, commit.first) for commit in outcome.commits)
        tell(len(whole), total)

    carry_out(tasks_of(run.plan, run.generations, writer), pool, clock, on_outcome)
    return compare(bucket.store, run, bucket.pause)


def deleting(deployment: Deployment) -> StoreSettings:
    """Section `expiry`: the bucket of `store`, by credentials that may delete; `SettingsError` for another bucket."""
    expiry, store = deployment.one("expiry", StoreSettings), deployment.one("store", StoreSettings)
    if (expiry.endpoint, expiry.bucket) != (store.endpoint, store.bucket):
        raise deployment.error(
            ("expiry",), "another bucket than `store`", got=expiry.bucket, fix="Change the credentials alone."
        )
    return expiry
