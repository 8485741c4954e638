"""The first look at documents on Spark: tasks assemble keys and read the topic, a join finds suspects.

Both sides are of about now; what was changed meanwhile is among the suspects, who are judged one by one (`judge`).
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from pyspark import StorageLevel
from pyspark.sql import SparkSession, functions

from include.audit.documents.judge import NewestRecord
from include.audit.documents.made import DocumentMaker, shown
from include.audit.documents.sides import key_text
from include.clock import SystemClock
from include.document.behind import values_of, values_text
from include.document.database import DatabaseAddress
from include.document.definition import DocumentDefinition
from include.document.reading.mysql import MysqlTables
from include.document.reading.read_throttle import Metered, ReadLoad
from include.document.reading.tables import KEYS_AT_ONCE
from include.errors import InvalidRecord
from include.log.planning.slices import cached_consumer, slices_in
from include.log.registry.confluent import ConfluentRegistry
from include.log.running import batches_spark
from include.log.running.worker_memory import keep_imports
from include.record.codec import Decoder
from include.record.position import SourcePosition
from include.record.version import from_headers
from include.settings.connections import Kafka, Registry

__all__ = ["FirstPass", "first_look"]

_MADE: Final = "k string, body string, known boolean"
_READ: Final = "k string, version long, offset long, value binary"
_TOPIC: Final = "k string, version long, there string"
_ROWS: Final = 5_000
_OFFSETS_A_TASK: Final = 100_000


@dataclass(frozen=True)
class FirstPass:
    """What the first look came to.

    Args:
        documents: that the database makes.
        unknown: keys of which nobody can make one now.
        unreadable: records of the topic whose key or version nobody can read.
        suspects: keys that differed, with the topic's newest.
        left_out: more of them than are wanted.
    """

    documents: int
    unknown: int
    unreadable: int
    suspects: Mapping[str, NewestRecord]
    left_out: int


def first_look(
    spark: SparkSession,
    topic: str,
    definition: DocumentDefinition,
    server: DatabaseAddress,
    kafka: Kafka,
    registry: Registry,
    pages: Sequence[Sequence[str]],
    at: tuple[SourcePosition, Mapping[int, int]],
    *,
    chosen: tuple[int, int],
    most: int,
) -> FirstPass:
    """Compare the documents of all keys.

    Args:
        spark: made by `log.running.batches_spark.session`.
        topic: the documents'.
        definition: of them.
        server: that documents are read from, by so many connections as Spark has cores.
        kafka: the brokers.
        registry: of schemas.
        pages: keys of the fact table (`document.behind.values_text`), a task's in each.
        at: ends of the topic, partition by partition, and a position that has all that is below them; what is read of
            the database has it, too.
        chosen: (n, of): only keys that fall into part n of so many.
        most: suspects that are wanted.
    """
    cores = max(1, spark.sparkContext.defaultParallelism)
    rows_per_s = -(-definition.read_rows_per_s // cores) if definition.read_rows_per_s else 0
    position, ends = at
    plan = pickle.dumps((topic, definition, server, rows_per_s, position))
    shares = [(orjson.dumps(list(page)).decode(),) for page in pages]
    given = spark.createDataFrame(shares, "keys string").repartition(max(1, len(shares)))
    made = given.mapInArrow(partial(_made, plan), _MADE).persist(StorageLevel.DISK_ONLY)
    part, of = chosen
    # A task's keys are in its memory, so tasks are as many as the records ask for.
    tasks = max(cores, -(-sum(ends.values()) // _OFFSETS_A_TASK))
    slices = batches_spark.read_batch(
        spark,
        bootstrap=kafka.bootstrap,
        topics=[topic],
        end={topic: dict(ends)},
        tasks=tasks,
        slices=True,
        options=kafka.options,
    )
    told = pickle.dumps((kafka, registry, part, of))
    read = slices.mapInArrow(partial(_read, told), _READ).persist(StorageLevel.DISK_ONLY)
    greatest = functions.max(functions.struct("version", "offset", "value")).alias("newest")
    newest = read.where("k is not null").groupBy("k").agg(greatest).select("k", "newest.version", "newest.value")
    there = newest.mapInArrow(partial(_shown, pickle.dumps(registry)), _TOPIC)
    try:
        with batches_spark.own_errors():
            counted = made.agg(
                functions.expr("count_if(body is not null)"), functions.expr("count_if(not known)")
            ).collect()[0]
            both = made.join(there, "k", "full_outer")
            wrong = both.where("coalesce(known, true) and not (body <=> there)").select("k", "version", "there")
            wrong_rows = wrong.limit(most + 1).collect()
            left_out = wrong.count() - most if len(wrong_rows) > most else 0
            unreadable = read.where("k is null").agg(functions.sum("version")).collect()[0][0] or 0
    finally:
        made.unpersist()
        read.unpersist()
    suspects = {
        row["k"]: NewestRecord(
            -1 if row["version"] is None else row["version"],
            None if row["there"] is None else orjson.loads(row["there"]),
        )
        for row in wrong_rows[:most]
    }
    return FirstPass(counted[0], counted[1], unreadable, suspects, left_out)


def _made(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow.lib as pa

    topic, definition, server, rows_per_s, position = pickle.loads(plan)  # noqa: S301 - made by the driver
    tables = MysqlTables(server, definition.database)
    load = ReadLoad(rows_per_s, SystemClock())
    kinds = (pa.string(), pa.string(), pa.bool_())
    try:
        maker = DocumentMaker(topic, definition, tables)
        for share in (text for batch in batches for text in batch.column("keys").to_pylist()):
            keys = orjson.loads(share)
            for texts in (keys[first : first + KEYS_AT_ONCE] for first in range(0, len(keys), KEYS_AT_ONCE)):
                # Waits for what the last ones owe.
                load.begin()
                with Metered(tables, load).snapshot(position) as snapshot:
                    found = {
                        values_text(key): None if body is None else _json(body)
                        for key, body in maker.of(snapshot, list(map(values_of, texts)))
                    }
                columns = [texts, [found.get(text) for text in texts], [text in found for text in texts]]
                arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=["k", "body", "known"])
        load.begin()
    finally:
        tables.close()
    keep_imports()


def _json(body: Any) -> str:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def _read(plan: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Of each wanted key the newest record that this task has read; a row without key counts those nobody can read."""
    import pyarrow.lib as pa

    kafka, registry, part, of = pickle.loads(plan)  # noqa: S301 - made by the driver
    decode, slices = Decoder(ConfluentRegistry(registry).schema), slices_in(batches)
    newest: dict[str, tuple[int, int, bytes | None]] = {}
    unreadable = 0
    if slices:
        with cached_consumer(kafka.bootstrap, kafka.options) as consumer:
            for messages in consumer.read(slices):
                for message in messages:
                    try:
                        key, version = key_text(decode(message.key() or b"")), from_headers(message.headers() or ())
                    except InvalidRecord:
                        unreadable += 1
                        continue
                    at = version, message.offset(), message.value()
                    if zlib.crc32(key.encode()) % of == part and at[:2] > newest.get(key, (-1, -1))[:2]:
                        newest[key] = at
    keep_imports()
    rows: list[tuple[Any, ...]] = [(key, *at) for key, at in newest.items()]
    if unreadable:
        rows.append((None, unreadable, 0, None))
    for first in range(0, len(rows), _ROWS):
        kinds = (pa.string(), pa.int64(), pa.int64(), pa.binary())
        columns = zip(*rows[first : first + _ROWS], strict=True)
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["k", "version", "offset", "value"])


def _shown(registry: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow.lib as pa

    decode = Decoder(ConfluentRegistry(pickle.loads(registry)).schema)  # noqa: S301 - made by the driver
    for batch in batches:
        texts = [None if value is None else _text(decode, value) for value in batch.column("value").to_pylist()]
        arrays = [batch.column("k"), batch.column("version"), pa.array(texts, pa.string())]
        yield pa.RecordBatch.from_arrays(arrays, names=["k", "version", "there"])
    keep_imports()


def _text(decode: Decoder, value: bytes) -> str:
    try:
        return _json(shown(decode(value)))
    except InvalidRecord:
        # It is no document of anybody: the judge looks at it again.
        return "{}"
