"""The assembler in Spark: workers turn records into signals, the driver writes what they ask for.

Batches end at resolved records of the source. Executors decode the change topics and fold the signals of a task to
the newest of each key; the driver merges them and carries the batch out (`document.batch`). Where reading starts
follows from what the sink has committed, so checkpoints are disposable.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from include.clock import SystemClock
from include.document.batch import BatchRunner
from include.document.definition import database_of, definition_of
from include.document.mysql import MysqlTables
from include.document.publish import Publisher
from include.document.signals import Inputs, SignalFold, Signals
from include.log import stream
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.plan import BatchPlan
from include.log.ports import Record
from include.log.registry import ConfluentRegistry
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.record.codec import Decoder
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment
from include.settings.environment import state_folder

__all__ = ["collect", "run"]

_TRANSACTION_S = 300.0
_WAIT_S = 0.5
_MESSAGES = "message binary"


def run(application: str, deployment: Deployment, *, keep_session: bool = False) -> None:
    """Run the assembler of `application` until it is asked to stop; returns after a clean end.

    Raises `SettingsError` for what the deployment files get wrong, `Fenced` when another process took over, and any
    other `LyrebirdError` that ended it: the caller's process ends, the next start goes on from what is committed.
    """
    topic, definition = definition_of(deployment, application)
    kafka = deployment.one("kafka", Kafka)
    registry_url = deployment.one("registry", Registry).url
    options = dict(kafka.options)
    clock = SystemClock()
    metrics = Metrics(application).serve(state_folder())
    run_folder = RunFolder.from_environment(application, state_folder())
    reader = KafkaReader(kafka.bootstrap, options)
    inputs = Inputs(topic, definition)
    publisher = Publisher(
        topic,
        application,
        definition.source,
        inputs.all(),
        open_writer=lambda name: KafkaWriter(kafka.bootstrap, name, options, transaction_timeout_s=_TRANSACTION_S),
        reader=reader,
        admin=KafkaAdmin(kafka.bootstrap, options),
        clock=clock,
    )
    tables = MysqlTables(database_of(deployment, definition), definition.database)
    runner = BatchRunner(inputs, publisher, tables, reader, ConfluentRegistry(registry_url), clock, metrics)
    try:
        start = runner.start()
        while start is None:
            run_folder.report(application=application, waiting_for=inputs.cut_at)
            if run_folder.stop_requested():
                return
            clock.sleep(_WAIT_S)
            start = runner.start()
        spark = stream.session(application)
        rows = stream.read_stream(
            spark,
            bootstrap=kafka.bootstrap,
            topics=inputs.all(),
            start=start,
            cut_at=inputs.cut_at,
            topic_ids=runner.topic_ids,
            options=options,
        )

        def on_batch(batch: DataFrame, plan: BatchPlan) -> Mapping[str, Any]:
            return runner.run(plan, lambda: collect(batch, inputs, registry_url))

        stream.run(
            rows,
            on_batch,
            application=application,
            run_folder=run_folder,
            metrics=metrics,
            trigger_s=0.2,
            keep_session=keep_session,
        )
    finally:
        publisher.close()
        tables.close()
        reader.close()


def collect(batch: DataFrame, inputs: Inputs, registry_url: str) -> Signals:
    """The signals of a batch's records; runs one Spark job. Errors of a task that are not of a record are raised."""
    found = batch.mapInArrow(functools.partial(_fold, inputs, registry_url), _MESSAGES)  # type: ignore[arg-type]
    return Signals.of(bytes(row["message"]) for row in found.collect())


def _fold(inputs: Inputs, registry_url: str, batches: Iterable[Any]) -> Iterator[Any]:
    """RecordBatches of the log's rows → one of messages; runs in a worker, once a task."""
    import pyarrow

    fold = SignalFold(inputs, _decoder(registry_url))
    for batch in batches:
        names = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
        for topic, partition, offset, at_ms, key, value, headers in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            fold.on_record(Record(topic, partition, offset, key, value, pairs, at_ms))
    messages = list(fold.signals.chunks())
    yield pyarrow.RecordBatch.from_pydict({"message": messages}, pyarrow.schema([("message", pyarrow.binary())]))


@functools.cache
def _decoder(registry_url: str) -> Decoder:
    """Kept for the worker's life: schemas are fetched and parsed once."""
    return Decoder(ConfluentRegistry(registry_url).schema)
