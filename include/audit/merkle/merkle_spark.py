"""The copy's side on Spark: the change topic of a table, or its lake table with what came since, as of any moment.

It follows: moments are another side's. Tasks read the files of a version and the records behind it, and hash them; SQL
makes of that the rows as of each range's moment, and their sums. What counts lies below a resolved record that has all
moments, so capture is waited for.
"""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from include.audit.merkle.as_of import PART, as_of_sql, changed_sql
from include.audit.merkle.bases import Base, floor_of, newest_resolved
from include.audit.merkle.change_rows import LIVE, ChangeRows, own_fields
from include.audit.merkle.hashed_rows import HIGH, KEY_TEXT, LEAF, LOW, ROW_TEXT, HashedRows
from include.audit.merkle.key_parts import part_sql
from include.audit.merkle.moments import Moments
from include.audit.merkle.sides import AsOfRange, FoundRows
from include.clock import Clock
from include.errors import Transient
from include.lake.tables.columns import KEY, VERSION, Columns, merged_schema
from include.lake.tables.tables_spark import read_table
from include.lake.tables.work import arrow_bytes, arrow_schema
from include.log import topics
from include.log.kafka.log import KafkaReader, record_of
from include.log.planning.slices import cached_consumer, slices_in
from include.log.registry.confluent import ConfluentRegistry
from include.log.resolved import ResolvedRecord
from include.log.running import batches_spark
from include.log.running.worker_memory import keep_imports
from include.policy.masks import HashMask, KeepLastMask
from include.record.fields import EnvelopeFields
from include.record.schema import avro_name
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment
from include.source.hashes.columns import ComparedColumn, ComparedRows
from include.source.hashes.scan import ScannedRange
from include.source.hashes.sums import LEAF_BITS, HashSum
from include.source.snapshot.watermark_window import SnapshotSpan
from include.source.state.key_range import KeyRange

__all__ = ["CopySide"]

_LOOK_S: Final = 0.2
_RECORDS_A_TASK: Final = 100_000
_FEW: Final = 50_000
"""Changed keys that each task is sent, instead of sorting all rows by key."""


class CopySide:
    """The copy of one table. Not for several threads.

    `newest` is the resolved record that was used last; `unreadable`, records behind the base that nobody can read.
    """

    def __init__(
        self,
        spark: SparkSession,
        deployment: Deployment,
        topic: str,
        base: Base,
        rows: ComparedRows,
        parts: Sequence[KeyRange],
        *,
        where: str = "",
        clock: Clock,
        patience_s: float = 300.0,
    ) -> None:
        """Nothing is read yet.

        Args:
            spark: made by `log.running.batches_spark.session`.
            deployment: the deployment files.
            topic: a change topic.
            base: where it begins, no later than any moment that is asked for.
            rows: what is compared.
            parts: ranges of the key that have all rows, in their order.
            where: a condition on them, in Spark's SQL (`condition_sql`); "": all.
            clock: waits for capture.
            patience_s: so long.
        """
        self._spark, self._deployment, self._topic, self._base = spark, deployment, topic, base
        self._rows, self._parts, self._clock, self._patience_s = rows, tuple(parts), clock, patience_s
        self._where = where
        self._kafka, self._registry = deployment.one("kafka", Kafka), deployment.one("registry", Registry)
        self._source = topics.TopicName.parse(topic).source or ""
        self._part = part_sql(rows, self._parts)
        self._places = {part: place for place, part in enumerate(self._parts)}
        self.newest: ResolvedRecord | None = None
        self.unreadable = 0

    def leaves(self, asked: Sequence[AsOfRange], bits: int) -> list[ScannedRange]:
        """As `sides.FollowingSide`."""
        sums_by_part: dict[int, dict[int, HashSum]] = {}
        with self._as_of(asked, bits) as (view, _):
            sums = f"count(*), sum({HIGH}), sum({LOW})"
            for part, leaf, rows, high, low in self._ask(f"select {PART}, {LEAF}, {sums} from {view} group by 1, 2"):  # noqa: S608
                sums_by_part.setdefault(part, {})[leaf] = HashSum(rows, (high << 32) + low)
        return [ScannedRange(each.at, sums_by_part.get(self._places[each.rows], {})) for each in asked]

    def rows_of(self, asked: Mapping[AsOfRange, Collection[int]], bits: int) -> dict[AsOfRange, FoundRows]:
        """As `sides.FollowingSide`."""
        texts: dict[int, dict[str, str]] = {}
        unsure: dict[int, set[str]] = {}
        wanted = {self._places[as_of_range.rows]: leaves for as_of_range, leaves in asked.items()}
        chosen = " or ".join(
            f"{PART} = {number} and {LEAF} in ({', '.join(map(str, leaves))})"
            for number, leaves in wanted.items()
            if leaves
        )
        every = frozenset().union(*wanted.values())
        with self._as_of(list(asked), bits, every) as (view, within):
            sql = f"select {PART}, {KEY_TEXT}, {ROW_TEXT} from {view} where {chosen or 'false'}"  # noqa: S608
            for part, key, row in self._ask(sql):
                texts.setdefault(part, {})[key] = row
            for part, key in self._ask(within) if within else ():
                unsure.setdefault(part, set()).add(key)
        places = {as_of_range: self._places[as_of_range.rows] for as_of_range in asked}
        return {
            as_of_range: FoundRows(as_of_range.at, texts.get(number, {}), unsure.get(number, ()))
            for as_of_range, number in places.items()
        }

    def earlier(self, keys: Collection[str]) -> Mapping[str, Collection[str]]:
        """As `sides.FollowingSide`. The topic's own rows are its newest; for the lake's the whole topic is read."""
        if self._base.version is None:
            return {}
        old: dict[str, set[str]] = {}
        newest: dict[str, str] = {}
        with closing(KafkaReader(self._kafka.bootstrap, self._kafka.options)) as reader, self._views() as views:
            ends = reader.end_offsets(self._topic)
            schema = self._schema(None)
            made = self._hashed(schema, LEAF_BITS, texts=True)
            changes = self._changes(reader.begin_offsets(self._topic), ends, Moments(()), ends, schema, made)
            rows = views.view(changes.where(LIVE).where(f"{KEY} is not null"))
            wanted = views.view(self._spark.createDataFrame([(key,) for key in keys], f"{KEY_TEXT} string"))
            sql = f"select {KEY_TEXT}, {ROW_TEXT} from {rows} join {wanted} using ({KEY_TEXT}) order by {VERSION}"  # noqa: S608
            for said, text in self._ask(sql):
                old.setdefault(said, set()).add(text)
                newest[said] = text
        return {each: texts - {newest[each]} for each, texts in old.items()}

    @contextmanager
    def _as_of(
        self, asked: Sequence[AsOfRange], bits: int, leaves: frozenset[int] | None = None
    ) -> Iterator[tuple[str, str]]:
        """A view of all rows as of these moments, with `PART`, and SQL of what changed within them ("" for nothing).

        Of all rows hashes, or of those of some leaves texts.
        """
        spans = {self._places[each.rows]: each.at for each in asked}
        moments = Moments([at for span in spans.values() for at in (span.low, span.high)])
        lows = [moments.place(spans[place].low) if place in spans else -1 for place in range(len(self._parts))]
        highs = [moments.place(spans[place].high) if place in spans else -1 for place in range(len(self._parts))]
        with closing(KafkaReader(self._kafka.bootstrap, self._kafka.options)) as reader, self._views() as views:
            ends = self._wait(reader, list(spans.values()))
            lake = self._base.version is not None
            schema = self._schema(self._base.schema)
            made = self._hashed(schema, bits, texts=leaves is not None, leaves=leaves)
            columns = [name for name in made.schema([]).names if name not in (KEY, VERSION)]
            starts = dict(self._base.ends) if lake else reader.begin_offsets(self._topic)
            changes = self._changes(starts, ends, moments, self._base.ends, schema, made).cache()
            views.callback(changes.unpersist)
            self.unreadable = self._counted(changes.where(f"{KEY} is null"))
            changed = views.view(changes.where(f"{KEY} is not null"))
            base = views.view(self._base_rows(made)) if lake else ""
            few = lake and self._counted(changes) <= _FEW
            rows = self._spark.sql(as_of_sql(base, changed, columns, lows, self._base.floor, few=few))
            view = views.view(rows.where(self._where) if self._where else rows)
            yield view, changed_sql(changed, KEY_TEXT, lows, highs) if lows != highs and made.texts else ""

    def _wait(self, reader: KafkaReader, spans: Sequence[SnapshotSpan]) -> dict[int, int]:
        """Until capture has come to the end of all spans; ends of the topic there."""
        until_s = self._clock.monotonic_s() + self._patience_s
        while True:
            last, ends = newest_resolved(reader, self._topic)
            lacking = [each for each in spans if not last.position.covers(each.high)]
            if not lacking:
                break
            if self._clock.monotonic_s() > until_s:
                behind_s = max(each.high.commit_us - last.position.commit_us for each in lacking) / 1e6
                raise Transient(
                    f"capture has not come to the database's position within {self._patience_s:g} s",
                    system="capture",
                    source=self._source,
                    behind_s=round(behind_s, 1),
                    position=str(last.position.gtids) or str(last.position.binlog),
                    wanted=str(lacking[-1].high.gtids) or str(lacking[-1].high.binlog),
                    fix=f"Is it running? `lyrebird capture status --source {self._source}` tells.",
                )
            self._clock.sleep(_LOOK_S)
        self.newest = last
        floor = floor_of(reader, self._topic, ends)
        if floor != self._base.floor:
            raise Transient(
                "the table was emptied or read anew while it was compared",
                system="source",
                topic=self._topic,
                fix="Compare it again.",
            )
        return {p: end for (name, p), end in ends.items() if name == self._topic}

    def _schema(self, base: Any) -> Any:
        """Arrow's, of rows of now: the columns of `base`, and those of the newest schema. Raises as `merged_schema`."""
        import pyarrow.lib as pa

        columns = Columns(self._row_schema()).arrow
        if base is None:
            return pa.schema([pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64()), *columns])
        return merged_schema(base, columns, self._topic)[0]

    def _row_schema(self) -> Mapping[str, Any]:
        """Avro's, of the topic's newest; with the server's columns that it lacks.

        A table that never had a row has no schema; of one whose column went and came again the newest is not the last.
        """
        registry = ConfluentRegistry(self._registry)
        schema_id = registry.newest(f"{self._topic}-value")
        newest = EnvelopeFields(registry.schema(schema_id)).row.schema if schema_id is not None else {"fields": []}
        there = {field["name"] for field in newest["fields"]}
        kinds = [(avro_name(each.column.name), _leaving(each)) for each in self._rows.columns]
        kinds += [(self._rows.invalid, {"type": "map", "values": "string"})] if self._rows.invalid else []
        more = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds if name not in there]
        return {"type": "record", "name": "Value", **newest, "fields": [*newest["fields"], *more]}

    def _hashed(
        self, schema: Any, bits: int, *, texts: bool = False, leaves: frozenset[int] | None = None
    ) -> HashedRows:
        """How rows of that Arrow schema are read: with the columns that ranges and the condition go by."""
        import pyarrow.lib as pa

        names = {avro_name(each.column.name) for each in self._rows.key}
        names |= {each.name for each in schema if f"`{each.name}`" in self._where}
        asked = pa.schema([each for each in schema if each.name in names])
        return HashedRows(self._rows.without_salt(), arrow_bytes(asked), bits, texts, leaves)

    def _base_rows(self, made: HashedRows) -> DataFrame:
        shape = from_arrow_schema(made.schema([]), prefer_timestamp_ntz=True)
        read = partial(_base_batches, pickle.dumps(made))
        version = str(self._base.version)
        table = read_table(
            self._spark, self._deployment, self._topic, version, self._base.generation, each=read, shape=shape
        )
        return table.withColumn(PART, functions.expr(self._part))

    def _changes(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        moments: Moments,
        sure: Mapping[int, int],
        schema: Any,
        made: HashedRows,
    ) -> DataFrame:
        begins = {p: min(starts.get(p, 0), end) for p, end in ends.items()}
        size = sum(end - begins[p] for p, end in ends.items())
        tasks = max(self._spark.sparkContext.defaultParallelism, -(-size // _RECORDS_A_TASK))
        slices = batches_spark.read_batch(
            self._spark,
            bootstrap=self._kafka.bootstrap,
            topics=[self._topic],
            start={self._topic: begins},
            end={self._topic: dict(ends)},
            tasks=tasks,
            slices=True,
            options=self._kafka.options,
        )
        plan = pickle.dumps(
            (
                self._topic,
                self._kafka,
                self._registry,
                arrow_bytes(schema),
                self._row_schema(),
                moments,
                dict(sure),
                made,
            )
        )
        shape = from_arrow_schema(made.schema(own_fields()), prefer_timestamp_ntz=True)
        return slices.mapInArrow(partial(_change_rows, plan), shape).withColumn(PART, functions.expr(self._part))

    def _counted(self, frame: DataFrame) -> int:
        with batches_spark.own_errors():
            return frame.count()

    def _ask(self, sql: str) -> list[Any]:
        with batches_spark.own_errors():
            return self._spark.sql(sql).collect()

    @contextmanager
    def _views(self) -> Iterator[_Views]:
        with ExitStack() as stack:
            yield _Views(self._spark, stack)


def _leaving(compared: ComparedColumn) -> Any:
    masked = isinstance(compared.mask, HashMask | KeepLastMask)
    return "string" if masked else compared.column.avro()


class _Views:
    """Temporary views that go at the end of a block."""

    def __init__(self, spark: SparkSession, stack: ExitStack) -> None:
        self._spark, self.callback = spark, stack.callback

    def view(self, frame: DataFrame) -> str:
        name = f"v{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self.callback(self._spark.catalog.dropTempView, name)
        return name


def _base_batches(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    made: HashedRows = pickle.loads(plan)  # noqa: S301 - made by the driver
    return made.made((), batches)


def _change_rows(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    topic, kafka, registry, schema, row_schema, moments, sure, made = pickle.loads(plan)  # noqa: S301 - made by the driver
    slices = slices_in(batches)
    if slices:
        rows = ChangeRows(topic, arrow_schema(schema), row_schema, moments, sure, ConfluentRegistry(registry).schema)
        with cached_consumer(kafka.bootstrap, kafka.options) as consumer:
            records = map(record_of, itertools.chain.from_iterable(consumer.read(slices)))
            tables = (batch for table in rows.tables(records) for batch in table.combine_chunks().to_batches())
            yield from made.made([each.name for each in own_fields()], tables)
    keep_imports()
