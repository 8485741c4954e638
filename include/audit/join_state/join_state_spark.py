"""The audit of a join's state on Spark: tasks read the inputs and open the buckets, Spark SQL compares them.

The buckets are opened from the object store at the versions that the join had committed at the cut, in a folder of the
task's own: the running join is not asked, and not disturbed.
"""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions

from include.audit.join_state.report import KINDS, SHOWN, StateReport
from include.audit.join_state.rows import held_rows, stood
from include.audit.joins.cut import JoinCut
from include.audit.joins.joins_spark import (
    arrow_of,
    audit_join,
    floors_at,
    newest_of_each,
    records_in,
    rows_of,
    settled_join,
)
from include.audit.joins.report import JoinReport
from include.clock import Clock, iso
from include.errors import Terminal
from include.join.committed import CommittedJoin, state_place
from include.join.config.deployed import DeployedJoin
from include.join.rehoming import committed_of, released, versions_of
from include.join.takeover import Edition
from include.join.task import equipped
from include.log import topics
from include.log.kafka.log import KafkaReader, KafkaWriter
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.worker_memory import keep_imports
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.deployment import Deployment
from include.settings.environment import state_folder
from include.state.opening import StatePlace, open_bucket
from include.store.s3 import store_of
from include.store.task_folder import sweep, task_folder

__all__ = ["verified", "verify_state"]

_STOOD: Final = (
    "slot int, key binary, version long, partition int, offset long, live boolean, join_key binary, digest binary"
)
_HELD: Final = "stage string, slot int, key binary, join_key binary, version long, digest binary, home boolean"
_OWN: Final = "verify-"


def verify_state(spark: SparkSession, deployment: Deployment, join: DeployedJoin, *, clock: Clock) -> StateReport:
    """Compare each bucket of a join's state with the newest rows of its inputs.

    Args:
        spark: made by `batches_spark.session`.
        deployment: the deployment files.
        join: what is declared.
        clock: for the report.

    Raises:
        NothingToJudge: the join has not begun.
        Transient: the join has resolved nothing yet, is becoming another one, or a server does not answer.
        Terminal: what the join has written is gone, the log does not hold the inputs as they were then, or objects of
            the state are gone or damaged.
    """
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    with settled_join(deployment, join, clock) as (reader, checked, cut):
        committed = _committed_at_cut(reader, join, cut)
        floors = floors_at(checked, cut, reader)
    edition = pickle.dumps((Edition(committed.definition, checked, committed.slots, (0, 0)), registry, kafka))
    unreadable, wanted = 0, None
    for slot, each in zip(committed.slots, checked.inputs, strict=True):
        rows = rows_of(spark, kafka, cut.inputs, each.topic, functools.partial(_stood, edition), _STOOD).cache()
        unreadable += rows.where("key IS NULL").count()
        newest = newest_of_each(rows.where("key IS NOT NULL"), floors.get(each.topic, 0))
        stages = [("rows", "digest")] + ([("whereabouts", "cast('' AS BINARY) AS digest")] if each.located else [])
        for stage, digest in stages:
            some = newest.selectExpr(f"'{stage}' AS stage", f"{slot} AS slot", "key", "join_key", "version", digest)
            wanted = some if wanted is None else wanted.unionByName(some)
    if wanted is None:
        raise Terminal("a join has inputs", join=join.name)
    held = _held(spark, deployment, join, committed).cache()
    wanted = wanted.cache()
    try:
        counts, some_of = _compared(wanted, held)
        return StateReport(
            join.name,
            iso(clock.now_us()),
            cut.positions,
            len(committed.pointers),
            wanted.count(),
            held.count(),
            counts,
            some_of,
            cut.uncovered,
            unreadable,
        )
    finally:
        spark.catalog.clearCache()


def verified(
    spark: SparkSession, deployment: Deployment, join: DeployedJoin, *, clock: Clock
) -> tuple[StateReport, JoinReport | None]:
    """Verify the state; where it was imported, audit the outputs too, and let the join go on when both are clean.

    Returns the reports; that of the outputs only behind an import. Raises as `verify_state` and `audit_join`, and
    `Terminal` when another state was imported meanwhile.
    """
    kafka = deployment.one("kafka", Kafka)
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
        before = committed_of(join, reader)
        report = verify_state(spark, deployment, join, clock=clock)
        if not before.unverified:
            return report, None
        outputs = audit_join(spark, deployment, join.name, join, clock=clock)
        if report.clean and outputs.clean:
            released(join, versions_of(before), reader, lambda name: KafkaWriter(kafka.bootstrap, name, kafka.options))
        return report, outputs


def _committed_at_cut(reader: KafkaReader, join: DeployedJoin, cut: JoinCut) -> CommittedJoin:
    """What the join had committed at the cut, or the import that stands in its place since then.

    Both rest on one record: a running join speaks again between two looks.
    """
    name, end = topics.state(join.topic), cut.state
    if end is None:
        raise Terminal("the join has not said which state is its own", join=join.name, fix="Let it run for a batch.")
    records = list(reader.read(name, 0, reader.begin_offsets(name)[0], reader.end_offsets(name)[0]))
    then = CommittedJoin.read([record for record in records if record.offset < end], None)
    now = CommittedJoin.read(records, None)
    # No batch between: the same rows, in other buckets maybe.
    return now if now.base == then.base else then


def _held(spark: SparkSession, deployment: Deployment, join: DeployedJoin, committed: CommittedJoin) -> DataFrame:
    place = state_place(join.topic, state_folder())
    plan = pickle.dumps((place, deployment.one("store", StoreSettings), committed.buckets))
    pointers = [(stage, bucket, pointer) for (stage, bucket), pointer in sorted(committed.pointers.items())]
    frame = spark.createDataFrame(pointers, "stage string, bucket int, pointer binary")
    # A task for each bucket.
    return frame.repartition(max(1, len(pointers))).mapInArrow(functools.partial(_buckets, plan), _HELD)


def _compared(wanted: DataFrame, held: DataFrame) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """(kind → so many, kind → some of them)."""
    both = wanted.alias("w").join(held.alias("h"), on=["stage", "slot", "key", "join_key"], how="full_outer")
    kind = functions.expr(
        "CASE WHEN h.home IS NULL THEN 'missing' WHEN NOT h.home THEN 'misplaced' "
        # Of a row that a truncation removed the first stage still knows where it was: nothing comes of it.
        "WHEN w.version IS NULL THEN IF(stage = 'rows', 'extra', NULL) "
        "WHEN h.version < w.version THEN 'stale' WHEN h.version > w.version OR h.digest <> w.digest THEN 'altered' END"
    )
    told = functions.expr(
        "concat(stage, ' of input ', slot, ', key ', hex(key), ' under join key ', hex(join_key), "
        "', version ', coalesce(cast(h.version AS STRING), 'none'), "
        "', wanted ', coalesce(cast(w.version AS STRING), 'none'))"
    )
    wrong = both.select(kind.alias("kind"), told.alias("told")).where("kind IS NOT NULL").cache()
    counts = {row["kind"]: row["count"] for row in wrong.groupBy("kind").count().collect()}
    some = {
        kind_name: tuple(
            row["told"] for row in wrong.where(functions.col("kind") == kind_name).orderBy("told").take(SHOWN)
        )
        for kind_name in KINDS
        if kind_name in counts
    }
    wrong.unpersist()
    return {kind_name: counts[kind_name] for kind_name in KINDS if kind_name in counts}, some


def _stood(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    edition, registry, kafka = pickle.loads(plan)  # noqa: S301 - this application's own driver made it
    _, readers = equipped(edition, ConfluentRegistry(registry), edition.slots)
    yield from arrow_of((stood(record, readers[record.topic]) for record in records_in(kafka, batches)), _STOOD)


def _buckets(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    location, connection, buckets = pickle.loads(plan)  # noqa: S301 - this application's own driver made it
    store, below = store_of(connection), Path(location.folder)
    below.mkdir(parents=True, exist_ok=True)
    sweep(below, _OWN)
    try:
        for row in itertools.chain.from_iterable(batch.to_pylist() for batch in batches):
            with (
                task_folder(below, _OWN) as folder,
                open_bucket(
                    StatePlace(str(folder), location.prefix), store, row["stage"], row["bucket"], row["pointer"]
                ) as opened,
            ):
                rows = held_rows(row["stage"], row["bucket"], opened.scan(b""), buckets)
                yield from arrow_of(rows, _HELD)
    finally:
        store.close()
    keep_imports()
