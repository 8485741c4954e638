"""The log as rows in Spark: the source that every application reads with.

Spark asks `LogStreamReader` in a process of its own beside the driver where a batch ends (`Planner`), and reads the
batch's slices in its Python workers (`RangeConsumer`). Batch and stream readers are two classes: one class that is
both silently reads nothing in batch.

What a stream promises: each committed record from `start` on appears in exactly one batch, a batch that is run again
reads the same records, and no batch goes back. Checkpoints are disposable: `start` comes from the sink.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

from include.clock import SystemClock
from include.log.plan import BatchPlan, Cut, StreamOffset, StreamSpec, batch_plan
from include.log.planner import Planner, bounded
from include.log.slices import Slice, cached_consumer, row_columns, slices_of, spread
from include.log.spark_settings import TALKATIVE, settings
from include.log.supervised import Supervised, checkpoint_folder
from include.log.survey import KafkaSurvey
from include.log.tail import KafkaTail, ResolvedTail, newest_cut
from include.log.worker_memory import keep_imports
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.settings.environment import environment

__all__ = [
    "ROW_SCHEMA",
    "BatchPlan",
    "Cut",
    "LogSource",
    "batch_plan",
    "newest_cut",
    "read_batch",
    "read_stream",
    "run",
    "session",
]

ROW_SCHEMA: Final = (
    "topic string, topic_id string, partition int, offset long, timestamp_ms long, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
_NAME: Final = "lyrebird-log"
_WAIT_S: Final = 0.4


def session(application: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session that knows the log, with settings fit for micro-batches.

    What spark-submit was given wins over `conf`, and `conf` over the defaults here. Without a master from outside it
    is `$LYREBIRD_SPARK_MASTER`, else `local[2]`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    outside: dict[str, str] = {}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Only with its gateway attached does SparkConf see what spark-submit was given.
        SparkContext._ensure_initialized()  # noqa: SLF001
        outside = dict(SparkConf().getAll())
    wanted = settings(
        application,
        given=conf or {},
        outside=outside,
        master=environment().get("LYREBIRD_SPARK_MASTER", "local[2]"),
        root=Path(__file__).resolve().parents[2],
    )
    builder: Any = SparkSession.builder
    for name, value in wanted.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.dataSource.register(LogSource)
    _silence(spark, *TALKATIVE)
    return spark


def _silence(spark: SparkSession, *names: str) -> None:
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    for name in names:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def read_stream(
    spark: SparkSession,
    *,
    bootstrap: str,
    topics: Sequence[str],
    start: Mapping[str, Mapping[int, int]] | None = None,
    cut_at: str | None = None,
    limit: int | None = None,
    limits: Mapping[str, int] | None = None,
    tasks: int = 2,
    topic_ids: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """A streaming DataFrame of `ROW_SCHEMA`: the committed records of `topics`, in batches.

    Args:
        spark: made by `session`.
        bootstrap: the brokers.
        topics: may be absent still: they are waited for.
        start: topic -> partition -> next offset; what it does not name is read from the beginning.
        cut_at: a resolved topic. Every batch then ends at a later one of its records than the last (`BatchPlan.cut`),
            also when nothing else came; topics that it does not speak for are read to their own ends on the way.
        limit: most offsets of a partition in one batch; not together with `cut_at`.
        limits: the same, per topic.
        tasks: most Spark tasks that a batch is spread over; a partition is read by one.
        topic_ids: ids that `start` belongs to.
        options: librdkafka's own.

    The query fails with `Terminal` when a topic has another id than the offsets belong to, or `start` is not held any
    more; with `Transient` when a task hears nothing for a minute. A broker that is away while no batch runs is waited
    for.
    """
    spec = StreamSpec(
        bootstrap,
        tuple(dict.fromkeys(topics)),
        start or {},
        cut_at,
        limit,
        limits or {},
        tasks,
        topic_ids or {},
        dict(options or {}),
    )
    return spark.readStream.format(_NAME).option("spec", spec.to_text()).load()


def read_batch(
    spark: SparkSession,
    *,
    bootstrap: str,
    topics: Sequence[str],
    start: Mapping[str, Mapping[int, int]] | None = None,
    end: Mapping[str, Mapping[int, int]] | None = None,
    tasks: int = 2,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The same rows, bounded: from `start` (default: the beginning) to `end` (default: last stable offsets).

    The bounds are settled by this call, so every action on the DataFrame reads the same records.

    Raises:
        Terminal: a topic does not exist, or `start` is not held any more.
        Transient: the log does not answer.
    """
    spec = StreamSpec(bootstrap, tuple(dict.fromkeys(topics)), start or {}, tasks=tasks, options=dict(options or {}))
    offset = bounded(spec, KafkaSurvey(bootstrap, spec.options), end or {})
    return spark.read.format(_NAME).option("spec", spec.to_text()).option("offset", offset.to_text()).load()


def run(
    df: DataFrame,
    on_batch: Callable[[DataFrame, BatchPlan], Mapping[str, Any] | None],
    *,
    application: str,
    run_folder: RunFolder,
    metrics: Metrics,
    trigger_s: float = 0.5,
    checkpoint: Path | None = None,
    keep_session: bool = False,
) -> None:
    """Run a stream of `read_stream` until it is asked to stop (file `stop` of the run folder, or SIGTERM).

    Args:
        df: the stream.
        on_batch: does the work of one batch, all of it, before it returns; what it returns goes to progress.json.
            Each action on its DataFrame reads the batch from the log again. A batch may come twice after a failure.
        application: name for logs and metrics.
        run_folder: where progress goes and the stop request comes from.
        metrics: rows, batches, batch_seconds, lag_records per topic, lag_seconds and position (streams with a cut).
        trigger_s: least time between the begins of two batches.
        checkpoint: default a fresh temporary folder: the sink says where to start.
        keep_session: leave the Spark session running.

    At a stop the running batch is finished, then query and session end and the call returns.

    Raises:
        LyrebirdError: what ended the query, in one line: an error of ours with its class, wherever it was raised
            (`on_batch`, a task, the planner); else `Transient` with the cause's last line.
    """
    supervised = Supervised(application, run_folder, metrics, SystemClock())
    spark = df.sparkSession
    listener = _Listener(supervised)
    spark.streams.addListener(listener)
    try:
        with checkpoint_folder(application, checkpoint) as folder:

            def work(rows: DataFrame, batch_id: int) -> None:
                plan = batch_plan(folder, batch_id)
                supervised.batch(batch_id, plan, lambda: on_batch(rows, plan))

            writer = df.writeStream.queryName(application).foreachBatch(work)
            writer = writer.option("checkpointLocation", folder.as_uri())
            supervised.until_stopped(writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds").start())
        if supervised.failure is not None:
            raise supervised.error(supervised.failure)
    except PySparkException as failed:
        raise supervised.error(failed) from (supervised.failure or failed)
    finally:
        spark.streams.removeListener(listener)
        if not keep_session:
            spark.stop()


class _Listener(StreamingQueryListener):
    """Spark's reports, on to `Supervised`."""

    def __init__(self, supervised: Supervised) -> None:
        self._supervised = supervised

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._supervised.idle()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._supervised.heard(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._supervised.idle()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


class LogSource(DataSource):
    """Spark's door to the log: format `lyrebird-log`."""

    @classmethod
    def name(cls) -> str:
        """Its format's name."""
        return _NAME

    def schema(self) -> StructType | str:
        """`ROW_SCHEMA`."""
        return ROW_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """For bounded reads."""
        offset = StreamOffset.from_text(self.options["offset"])
        return LogBatchReader(StreamSpec.from_text(self.options["spec"]), schema, offset)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For streams."""
        return LogStreamReader(StreamSpec.from_text(self.options["spec"]), schema)


class SlicePartition(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


def _rows(spec: StreamSpec, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """RecordBatches of a task's slices."""
    if not isinstance(partition, SlicePartition):
        # Spark plans one empty partition where a bounded read has none.
        return
    kind = to_arrow_schema(schema, timezone="UTC")
    ids = {each.topic: each.topic_id for each in partition.slices}
    with cached_consumer(spec.bootstrap, spec.options) as consumer:
        for messages in consumer.read(partition.slices):
            yield row_columns(messages, ids, kind)
    keep_imports()


def _tasks(offset: StreamOffset, tasks: int) -> list[InputPartition]:
    slices = slices_of(offset.starts, offset.ends, offset.ids)
    return [SlicePartition(group) for group in spread(slices, tasks)]


class LogBatchReader(DataSourceReader):
    """Reads the slices between two settled offsets."""

    def __init__(self, spec: StreamSpec, schema: StructType, offset: StreamOffset) -> None:
        self._spec = spec
        self._schema = schema
        self._offset = offset

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        return _tasks(self._offset, self._spec.tasks)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """RecordBatches; runs in a worker."""
        return _rows(self._spec, self._schema, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Feeds Spark from a `Planner`. Pickled to the workers, so that it opens nothing before it is asked."""

    def __init__(self, spec: StreamSpec, schema: StructType) -> None:
        self._spec = spec
        self._schema = schema
        self._planner: Planner | None = None
        self._bounded = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where `start` says, at every call."""
        return self._spec.initial().to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch, or `start` when there is none or the log is away.

        Waits a little for news: so a quiet stream costs little and still reacts at once. `limit` is Spark's own and
        always "all": ours are in the spec.
        """
        before = StreamOffset.from_json(start)
        after = self._opened().latest(before, 0.0 if self._bounded else _WAIT_S)
        return start if after is before else after.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Go to what is there now and no further."""
        self._opened().freeze(self._spec.initial())
        self._bounded = True

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest ends that were seen: what lag is measured against."""
        newest = self._opened().newest()
        return StreamOffset(ends=newest).to_json() if newest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One for each task; none when the batch has moved nothing but its cut."""
        return [] if start == end else _tasks(StreamOffset.from_json(end), self._spec.tasks)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """RecordBatches; runs in a worker."""
        return _rows(self._spec, self._schema, partition)

    def _opened(self) -> Planner:
        if self._planner is None:
            spec = self._spec
            survey = KafkaSurvey(spec.bootstrap, spec.options)
            tail = (
                ResolvedTail(KafkaTail(spec.bootstrap, spec.cut_at, spec.options, survey), spec.cut_at)
                if spec.cut_at
                else None
            )
            self._planner = Planner(spec, survey, tail, SystemClock())
        return self._planner
