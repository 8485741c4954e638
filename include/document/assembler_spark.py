"""The assembler in Spark: workers turn records into signals, the driver writes what they ask for.

Batches end at resolved records of the source. Executors decode the change topics and fold the signals of a task to
the newest of each key; the driver merges them and carries the batch out (`document.batch`). Where reading starts
follows from what the sink has committed, so checkpoints are disposable.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from include.clock import SystemClock
from include.document.batch import BatchRunner
from include.document.database import DatabaseAddress
from include.document.definition import database_of, definition_of
from include.document.incidents import DocumentIncidents
from include.document.indexes import unindexed
from include.document.making import ChunkResult, DocumentKey, MakePlan, evenly, made_by_task
from include.document.reading.mysql import MysqlTables
from include.document.signals import Inputs, Signals
from include.document.task import KEY_SCHEMA, fold, keys
from include.errors import Transient
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.transaction_end import end_transaction
from include.log.planning.plan import BatchPlan
from include.log.planning.slices import Slice, cut_evenly, slices_of, tasks_for
from include.log.ports import LogReader
from include.log.publishing.publisher import Publisher
from include.log.registry.confluent import ConfluentRegistry
from include.log.running import batches_spark
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.record.position import SourcePosition
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment
from include.settings.environment import state_folder

__all__ = ["find_living", "gathered", "made", "run"]

LOGGER: Final = logging.getLogger("lyrebird.document")
_TRANSACTION_S: Final = 300.0
_PATIENCE_S: Final = 60.0
_WAIT_S: Final = 0.5
_TELL_S: Final = 5.0
_OFFSETS_A_TASK: Final = 100_000
_OFFSETS_A_SHARE: Final = 25_000
_SHARES_A_CORE: Final = 4
_KEYS_A_TASK: Final = 5_000


def run(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Run the assembler of `application` until it is asked to stop; returns after a clean end.

    Raises `SettingsError` for what the deployment files get wrong, `Fenced` when another process took over, and any
    other `LyrebirdError` that ended it: the caller's process ends, the next start goes on from what is committed.
    """
    topic, definition = definition_of(deployment, application)
    kafka = deployment.one("kafka", Kafka)
    registry = deployment.one("registry", Registry)
    options = dict(kafka.options)
    clock = SystemClock()
    metrics = Metrics(application).serve(state_folder())
    run_folder = RunFolder.from_environment(application, state_folder())
    reader = KafkaReader(kafka.bootstrap, options)
    inputs = Inputs(topic, definition)
    publisher = Publisher(
        topic,
        application,
        (definition.source,),
        inputs.all(),
        open_writer=lambda name: KafkaWriter(kafka.bootstrap, name, options, transaction_timeout_s=_TRANSACTION_S),
        finish=lambda id_, places, commit: end_transaction(
            kafka.bootstrap, id_, places, commit=commit, group=id_, options=options
        ),
        reader=reader,
        admin=KafkaAdmin(kafka.bootstrap, options),
        clock=clock,
    )
    server = database_of(deployment, definition)
    tables = MysqlTables(server, definition.database)
    told_s = clock.monotonic_s()

    def tell(waiting_for: str) -> None:
        nonlocal told_s
        if waiting_for or clock.monotonic_s() - told_s >= _TELL_S:
            told_s = clock.monotonic_s()
            run_folder.report(application=application, **({"waiting_for": waiting_for} if waiting_for else {}))

    asked = threading.Event()
    runner = BatchRunner(
        inputs,
        publisher,
        tables,
        reader,
        ConfluentRegistry(registry),
        clock,
        metrics,
        find=lambda version, after: find_living(
            spark, reader, topic, kafka.bootstrap, options, lambda: tell(""), version, after
        ),
        make=lambda plan, position, wanted: made(spark, server, plan, position, wanted),
        tell=tell,
        stopping=lambda: asked.is_set() or run_folder.stop_requested(),
    )
    try:
        start = _start(runner, run_folder, application)
        if start is None:
            return
        for each in unindexed(definition, tables.indexed):
            LOGGER.warning("no index finds rows of %s by %s, for %s: %s", each.table, each.columns, each.why, each.fix)
        if definition.unheard():
            LOGGER.warning(
                "a change of rows in %s alone alters no document: name them under `signals` or `corrected`",
                ", ".join(definition.unheard()),
            )
        spark = batches_spark.session(application)
        rows = batches_spark.read_stream(
            spark,
            bootstrap=kafka.bootstrap,
            topics=inputs.all(),
            start=start,
            cut_at=(inputs.cut_at,),
            cut_limit=definition.batch_changes,
            topic_ids=runner.topic_ids,
            options=options,
        )

        task = functools.partial(fold, inputs, kafka.bootstrap, options, registry)

        incidents = DocumentIncidents(topic, definition.unheard(), run_folder, clock)

        def on_batch(_: DataFrame, plan: BatchPlan) -> Mapping[str, Any]:
            slices = slices_of(plan.start, plan.ends, plan.topic_ids)
            runner.unheard.clear()
            told = runner.run(plan, lambda: gathered(spark, task, slices, lambda: tell("")))
            return {**told, "requests": runner.requests, "incidents": incidents.after_batch(runner.unheard)}

        batches_spark.warm(spark, task)
        batches_spark.run(
            rows,
            on_batch,
            application=application,
            run_folder=run_folder,
            metrics=metrics,
            trigger_s=0.4,
            keep_session=keep_session,
            asked=asked,
        )
    finally:
        publisher.close()
        tables.close()
        reader.close()


def _start(runner: BatchRunner, run_folder: RunFolder, application: str) -> dict[str, dict[int, int]] | None:
    """Where to begin, waiting for servers (for a while) and for capture (for ever); None when asked to stop."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + _PATIENCE_S
    while not run_folder.stop_requested():
        try:
            start = runner.start()
        except Transient as error:
            if clock.monotonic_s() > until_s:
                raise
            LOGGER.warning("starting again: %s", error)
            start = None
        if start is not None:
            return start
        run_folder.report(application=application, waiting_for=runner.inputs.cut_at)
        clock.sleep(_WAIT_S)
    return None


def gathered(
    spark: SparkSession, task: Callable[[Sequence[Slice]], Signals], slices: Sequence[Slice], tell: Callable[[], None]
) -> Signals:
    """The signals of the records in `slices`, found in jobs of bounded size, one after the other; `tell` after each.

    A partition may be read by several tasks, as signals are folded to the newest of each key in any order. This
    process holds no more than what one job has found and `Signals` remembers.
    """
    out = Signals()
    cores = spark.sparkContext.defaultParallelism
    size = sum(each.size for each in slices)
    shares = iter(cut_evenly(slices, max(tasks_for(slices, cores), -(-size // _OFFSETS_A_SHARE))))
    while some := list(itertools.islice(shares, _SHARES_A_CORE * cores)):
        for each in batches_spark.work_off(spark, task, some):
            out.merge(each)
        tell()
    return out


def made(
    spark: SparkSession,
    server: DatabaseAddress,
    plan: MakePlan,
    position: SourcePosition | None,
    wanted: Sequence[DocumentKey],
) -> Iterator[list[ChunkResult]]:
    """`making.MakeRest` on executors: rounds of as many tasks as may read the database, all of the same size."""
    width = min(max(1, spark.sparkContext.defaultParallelism), plan.definition.read_connections)
    task = functools.partial(made_by_task, server, plan, position)
    for some in evenly(wanted, -(-len(wanted) // (width * _KEYS_A_TASK))):
        yield [
            each for found in batches_spark.work_off(spark, task, evenly(some, min(width, len(some)))) for each in found
        ]


def find_living(
    spark: SparkSession,
    reader: LogReader,
    topic: str,
    bootstrap: str,
    options: Mapping[str, Any],
    tell: Callable[[], None],
    version: int,
    after: bytes,
) -> Iterator[bytes]:
    """`topic_state.Find` on executors: workers read the topic, what is found lies on disk and comes a part at a time.

    Args:
        spark: session whose executors read the topic.
        reader: of the log; asked for the topic's offsets.
        topic: of the documents.
        bootstrap: Kafka's servers, as the executors reach them.
        options: for Kafka's clients.
        tell: called now and then while the search goes on.
        version: documents that are older than it are found.
        after: keys above it are found.

    Returns:
        Keys of documents, as bytes, ascending.

    Raises:
        Terminal: there is no such topic.
        Transient: the log does not answer.
    """
    begins, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
    size = sum(end - begins[partition] for partition, end in ends.items())
    if not size:
        return
    # A task's keys are in its memory, so tasks are as many as the records ask for.
    tasks = max(spark.sparkContext.defaultParallelism, -(-size // _OFFSETS_A_TASK))
    spark.conf.set("spark.sql.shuffle.partitions", tasks)
    rows = batches_spark.read_batch(
        spark, bootstrap=bootstrap, topics=[topic], end={topic: ends}, tasks=tasks, slices=True, options=options
    )
    newest = (
        rows.mapInArrow(functools.partial(keys, bootstrap, options), KEY_SCHEMA)
        .groupBy("key")
        .agg(functions.max(functions.struct("version", "live")).alias("newest"))
    )
    old = newest.where(functions.col("newest.live") & (functions.col("newest.version") < version))
    old_keys = old.select("key").where(functions.col("key") > functions.lit(bytearray(after)))
    # Kept before it is sorted: Spark looks at what it sorts twice.
    old_keys = old_keys.persist(StorageLevel.DISK_ONLY)
    try:
        with batches_spark.own_errors(), batches_spark.telling(spark, tell):
            many = old_keys.count()
            LOGGER.info("%s documents of %s are older than %s", many, topic, version)
            parts = old_keys.orderBy("key").toLocalIterator()
            row = next(parts, None)
        while row is not None:
            yield bytes(row["key"])
            with batches_spark.own_errors():
                row = next(parts, None)
    finally:
        old_keys.unpersist()
