"""The audit of a join on Spark: tasks read both sides, Spark SQL joins the inputs and compares."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions

from include.audit.begun import await_begun
from include.audit.joins.cut import JoinCut, join_cut
from include.audit.joins.report import KINDS, JoinReport
from include.audit.joins.sides import InputSide, OutputSide
from include.audit.joins.sql import expected_sql
from include.audit.nothing import NothingJudged
from include.clock import Clock, iso
from include.errors import NothingToJudge, SettingsError, Transient
from include.join.committed import read_committed
from include.join.config.check import CheckedJoin, checked_join
from include.join.config.deployed import DeployedJoin, spread_topics
from include.join.takeover import definition_of, same_join
from include.log import topics
from include.log.control import floors_of
from include.log.kafka.log import KafkaAdmin, KafkaReader, record_of
from include.log.planning.plan import Partition
from include.log.planning.slices import cached_consumer, slices_in
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.log.running import batches_spark
from include.log.running.worker_memory import keep_imports
from include.record.codec import Decoder
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment

__all__ = [
    "arrow_of",
    "audit_join",
    "floors_at",
    "judged_or_nothing",
    "newest_of_each",
    "records_in",
    "rows_of",
    "settled_join",
]

_INPUT: Final = (
    "key binary, version long, partition int, offset long, live boolean, join_key string, grouped string, shown string"
)
_OUTPUT: Final = "key string, raw string, version long, live boolean, vector string, shown string"
_ROWS: Final = 5_000
_RECORDS_A_TASK: Final = 200_000
_SHOWN: Final = 20
_REPAIRED: Final = 10_000
"""Keys that one request names; where more are wrong, all outputs are written again."""


def judged_or_nothing(
    spark: SparkSession, deployment: Deployment, name: str, join: DeployedJoin, *, clock: Clock, sample: int = 1
) -> JoinReport | NothingJudged:
    """The report of `audit_join`, or that nothing is there yet that could be judged.

    Args:
        spark: as of `audit_join`, like all that follow; so are the errors, but for that one.
        deployment: the deployment files.
        name: the audit's.
        join: what is declared.
        clock: for the report.
        sample: one of so many outputs is compared.
    """
    at = iso(clock.now_us())
    try:
        report = audit_join(spark, deployment, name, join, clock=clock, sample=sample)
    except NothingToJudge as nothing:
        return NothingJudged.of(name, at, nothing, join.topic)
    return report.or_nothing


def audit_join(
    spark: SparkSession, deployment: Deployment, name: str, join: DeployedJoin, *, clock: Clock, sample: int = 1
) -> JoinReport:
    """Compare a joined topic with what SQL makes of its inputs.

    Args:
        spark: made by `batches_spark.session`.
        deployment: the deployment files.
        name: the audit's.
        join: what is declared.
        clock: for the report.
        sample: one of so many outputs is compared.

    Raises:
        NothingToJudge: the join has not begun.
        Transient: the join has resolved nothing yet, or a server does not answer.
        Terminal: what the join has written is gone, or the log does not hold the inputs as they were then.
    """
    kafka, registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
    with settled_join(deployment, join, clock) as (reader, checked, cut):
        floors = floors_at(checked, cut, reader)
    plan = pickle.dumps((checked, kafka, registry))
    unreadable = 0
    for number, checked_input in enumerate(checked.inputs):
        rows = rows_of(
            spark, kafka, cut.inputs, checked_input.topic, functools.partial(_inputs, plan, number), _INPUT
        ).cache()
        unreadable += rows.where("key IS NULL").count()
        newest_of_each(rows.where("key IS NOT NULL"), floors.get(checked_input.topic, 0)).createOrReplaceTempView(
            f"input_{number}"
        )
    decoder = Decoder(ConfluentRegistry(registry).schema)
    absent = [InputSide(checked, number, decoder).absent() for number in range(len(checked.inputs))]
    expected = spark.sql(expected_sql([clause.type == "left" for clause in checked.join.join], absent))
    records = rows_of(spark, kafka, cut.output, join.topic, functools.partial(_outputs, plan), _OUTPUT)
    held = (
        # Not by what the key says: an older `pkey` may have said the same of other rows.
        records.groupBy("raw")
        .agg(functions.max_by(functions.struct("key", "live", "vector", "shown"), "version").alias("newest"))
        .select("raw", "newest.*")
        .where("live")
    )
    if sample > 1:
        expected, held = (frame.where(f"pmod(xxhash64(key), {int(sample)}) = 0") for frame in (expected, held))
    expected, held = expected.cache(), held.cache()
    try:
        report = _judged(name, join, cut, expected, held, unreadable, sample, clock)
        return replace(report, records=cut.records([each.topic for each in checked.inputs]))
    finally:
        # Views hold the inputs, too.
        spark.catalog.clearCache()


def _judged(
    name: str,
    join: DeployedJoin,
    cut: JoinCut,
    expected: DataFrame,
    held: DataFrame,
    unreadable: int,
    sample: int,
    clock: Clock,
) -> JoinReport:
    both = expected.alias("e").join(held.alias("h"), on="key", how="full_outer")
    kind = functions.expr(
        "CASE WHEN h.shown IS NULL THEN 'missing' WHEN e.shown IS NULL THEN 'extra' "
        "WHEN e.vector <> h.vector THEN 'stale' ELSE 'altered' END"
    )
    wrong = both.where("NOT (e.shown <=> h.shown)").select("key", "h.raw", kind.alias("kind")).cache()
    counts = {row["kind"]: row["count"] for row in wrong.groupBy("kind").count().collect()}
    keys = {
        kind_name: tuple(
            row["key"] for row in wrong.where(functions.col("kind") == kind_name).orderBy("key").take(_SHOWN)
        )
        for kind_name in KINDS
        if kind_name in counts
    }
    named = tuple(row["raw"] for row in wrong.where("raw IS NOT NULL").orderBy("raw").take(_REPAIRED + 1))
    wrong.unpersist()
    return JoinReport(
        name,
        join.topic,
        iso(clock.now_us()),
        cut.positions,
        expected.count(),
        held.count(),
        {kind_name: counts[kind_name] for kind_name in KINDS if kind_name in counts},
        keys,
        cut.uncovered,
        unreadable,
        sample,
        named=named[:_REPAIRED],
        whole="missing" in counts or len(named) > _REPAIRED,
    )


@contextmanager
def settled_join(
    deployment: Deployment, join: DeployedJoin, clock: Clock
) -> Iterator[tuple[KafkaReader, CheckedJoin, JoinCut]]:
    """The join as it is declared and settled, and up to where it is judged; raises as `audit_join`."""
    kafka = deployment.one("kafka", Kafka)
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
        # Before the inputs are looked at: those of a join that has not begun may not be there either.
        await_begun(
            join.topic,
            reader,
            admin,
            clock,
            beside=topics.state(join.topic),
            start=f"Start the application {join.entry.application}.",
            mend=f"Restart the application {join.entry.application}, then run `lyrebird join rebuild {join.name}`.",
        )
        checked = checked_join(
            join.places,
            join.file,
            ConfluentRegistry(deployment.one("registry", Registry)),
            admin,
            forgetting=join.entry.forgetting,
            spread=spread_topics(deployment),
        )
        _require_settled(join, checked, reader)
        yield reader, checked, join_cut(reader, join.topic)


def _require_settled(join: DeployedJoin, checked: CheckedJoin, reader: KafkaReader) -> None:
    """Raises where the join is on its way to be another one (`Transient`), or its file is (`SettingsError`)."""
    committed = read_committed(reader, join.topic)
    if committed is None:
        return
    if committed.takeover is not None:
        raise Transient(
            f"{join.name} is made anew or becomes another join at the moment: `lyrebird join status` tells how far",
            system="join",
            attempt=1,
        )
    if not same_join(committed.definition, definition_of(checked.join, [each.topic for each in checked.inputs])):
        raise SettingsError(
            "the join's file has changed since its application started",
            join=join.name,
            fix=f"Restart {join.entry.application}: the join becomes what its file says.",
        )


def newest_of_each(rows: DataFrame, floor: int) -> DataFrame:
    """Of each key its newest row, where that lives; of equal versions the later record.

    `rows` has key, version, partition, offset, live; `floor`: version below which no row lives.
    """
    columns = [name for name in rows.columns if name != "key"]
    newest = functions.max_by(functions.struct(*columns), functions.struct("version", "partition", "offset"))
    return (
        rows.groupBy("key")
        .agg(newest.alias("newest"))
        .select("key", "newest.*")
        .where(functions.col("live") & (functions.col("version") >= floor))
    )


def floors_at(join: CheckedJoin, cut: JoinCut, reader: KafkaReader) -> Mapping[str, int]:
    """Topic → version below which no row of it lives, by the control records below the cut."""
    floors_by_topic: dict[str, int] = {}
    for checked_input in join.inputs:
        name = topics.TopicName.parse(checked_input.topic)
        if name.kind != "change" or name.source is None:
            continue
        control = topics.control(name.source)
        for (topic, partition), end in cut.inputs.items():
            if topic == control:
                begin = reader.begin_offsets(topic)[partition]
                floors = floors_of(name.source, reader.read(topic, partition, begin, end))
                floors_by_topic[checked_input.topic] = max(
                    floors_by_topic.get(checked_input.topic, 0), floors.get(checked_input.topic, 0)
                )
    return floors_by_topic


def rows_of(
    spark: SparkSession, kafka: Kafka, ends: Mapping[Partition, int], topic: str, task: Any, schema: str
) -> DataFrame:
    """Run `task` in Spark on a topic's records below `ends`; gives the rows that it makes.

    Args:
        spark: made by `batches_spark.session`.
        kafka: the brokers.
        ends: (topic, partition) → offset below which records are read; other topics are passed over.
        topic: that is read.
        task: function of slices that gives Arrow batches of `schema`; goes to Spark's workers.
        schema: of the rows, as Spark's DDL.

    Raises:
        Terminal: the topic does not exist.
        Transient: the log does not answer.
    """
    end: dict[str, dict[int, int]] = {topic: {}}
    for (name, partition), offset in ends.items():
        if name == topic:
            end[topic][partition] = offset
    size = sum(end[topic].values())
    tasks = max(spark.sparkContext.defaultParallelism, -(-size // _RECORDS_A_TASK))
    slices = batches_spark.read_batch(
        spark, bootstrap=kafka.bootstrap, topics=[topic], end=end, tasks=tasks, slices=True, options=kafka.options
    )
    return slices.mapInArrow(task, schema)


def _inputs(plan: bytes, number: int, batches: Iterable[Any]) -> Iterator[Any]:
    checked, kafka, registry = pickle.loads(plan)  # noqa: S301 - this application's own driver made it
    side = InputSide(checked, number, Decoder(ConfluentRegistry(registry).schema))
    yield from arrow_of(map(side.row, records_in(kafka, batches)), _INPUT)


def _outputs(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    checked, kafka, registry = pickle.loads(plan)  # noqa: S301 - this application's own driver made it
    side = OutputSide(checked, Decoder(ConfluentRegistry(registry).schema))
    yield from arrow_of(map(side.row, records_in(kafka, batches)), _OUTPUT)


def records_in(kafka: Kafka, batches: Iterable[Any]) -> Iterator[Record]:
    """The records of the slices that a task was handed."""
    slices = slices_in(batches)
    if slices:
        with cached_consumer(kafka.bootstrap, kafka.options) as consumer:
            for messages in consumer.read(slices):
                yield from map(record_of, messages)
    keep_imports()


def arrow_of(rows: Iterable[Sequence[Any]], schema: str) -> Iterator[Any]:
    """Rows as pyarrow RecordBatches of `schema`."""
    import pyarrow

    pa: Any = pyarrow
    kinds = {"binary": pa.binary(), "long": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(), "string": pa.string()}
    fields = [field.split() for field in schema.split(", ")]
    left = iter(rows)
    while some := list(itertools.islice(left, _ROWS)):
        columns = [
            pa.array(column, kinds[kind]) for column, (_, kind) in zip(zip(*some, strict=True), fields, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[name for name, _ in fields])
