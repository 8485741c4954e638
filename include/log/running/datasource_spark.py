"""Spark's door to the log: format `lyrebird-log`, of records or of the ranges that hold them.

Spark asks `LogStreamReader` in a process of its own beside the driver where a batch ends (`BatchPlanner`), and reads
the batch's slices in its Python workers (`RangeConsumer`) when its DataFrame is acted on. Batch and stream readers are
two classes: one class that is both silently reads nothing in batch.

Options of Kafka's clients have secrets, so they are no options of Spark's reader, which plans and logs show. They are
in the class that a session is given (`log_source`), and go to planner and workers with what Spark pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from include.clock import SystemClock
from include.log.planning.plan import StreamOffset, StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.slices import (
    Slice,
    cached_consumer,
    cut_evenly,
    row_columns,
    slice_columns,
    slices_of,
    spread,
)
from include.log.planning.survey import KafkaSurvey
from include.log.planning.tail import KafkaTail, ResolvedTail
from include.log.running.worker_memory import keep_imports

__all__ = ["FORMAT", "ROW_SCHEMA", "SLICE_SCHEMA", "LogSource", "log_source"]

ROW_SCHEMA: Final = (
    "topic string, topic_id string, partition int, offset long, timestamp_ms long, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
SLICE_SCHEMA: Final = "topic string, topic_id string, partition int, start long, end long"
FORMAT: Final = "lyrebird-log"
_WAIT_S: Final = 0.4


class LogSource(DataSource):
    """Registered with a session as `log_source` gives it."""

    kafka_options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def name(cls) -> str:
        """Its format's name."""
        return FORMAT

    def schema(self) -> StructType | str:
        """`ROW_SCHEMA`, or `SLICE_SCHEMA` where the spec asks for slices."""
        return SLICE_SCHEMA if self._spec().slices else ROW_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """For bounded reads."""
        return LogBatchReader(self._spec(), schema, StreamOffset.from_text(self.options["offset"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For streams."""
        return LogStreamReader(self._spec(), schema)

    def _spec(self) -> StreamSpec:
        return StreamSpec.from_text(self.options["spec"], self.kafka_options)


def log_source(options: Mapping[str, Any]) -> type[LogSource]:
    """The class to register for clients that have these options of librdkafka."""

    # Not of the module: so it is pickled with what it has, not by its name.
    class WithOptions(LogSource):
        kafka_options: ClassVar[Mapping[str, Any]] = dict(options)

    return WithOptions


class SlicePartition(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(None)
        self.slices = tuple(slices)


def _rows(spec: StreamSpec, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """RecordBatches of a task's slices, or of the records in them."""
    if not isinstance(partition, SlicePartition):
        # Spark plans one empty partition where a bounded read has none.
        return
    kind = to_arrow_schema(schema, timezone="UTC")
    if spec.slices:
        yield slice_columns(partition.slices, kind)
        return
    ids = {each.topic: each.topic_id for each in partition.slices}
    with cached_consumer(spec.bootstrap, spec.options) as consumer:
        for messages in consumer.read(partition.slices):
            yield row_columns(messages, ids, kind)
    keep_imports()


def _tasks(offset: StreamOffset, spec: StreamSpec) -> list[InputPartition]:
    share = cut_evenly if spec.slices else spread
    return [SlicePartition(group) for group in share(slices_of(offset.starts, offset.ends, offset.ids), spec.tasks)]


class LogBatchReader(DataSourceReader):
    """Reads the slices between two settled offsets."""

    def __init__(self, spec: StreamSpec, schema: StructType, offset: StreamOffset) -> None:
        self._spec = spec
        self._schema = schema
        self._offset = offset

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        return _tasks(self._offset, self._spec)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """RecordBatches; runs in a worker."""
        return _rows(self._spec, self._schema, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Feeds Spark from a `BatchPlanner`. Pickled to the workers, so that it opens nothing before it is asked."""

    def __init__(self, spec: StreamSpec, schema: StructType) -> None:
        self._spec = spec
        self._schema = schema
        self._planner: BatchPlanner | None = None
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
        return [] if start == end else _tasks(StreamOffset.from_json(end), self._spec)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """RecordBatches; runs in a worker."""
        return _rows(self._spec, self._schema, partition)

    def _opened(self) -> BatchPlanner:
        if self._planner is None:
            spec = self._spec
            survey = KafkaSurvey(spec.bootstrap, spec.options)
            tails = [ResolvedTail(KafkaTail(spec.bootstrap, name, spec.options, survey), name) for name in spec.cut_at]
            self._planner = BatchPlanner(spec, survey, tails, SystemClock())
        return self._planner
