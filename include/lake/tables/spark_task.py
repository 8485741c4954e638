"""Runs the tasks of a batch of tables on Spark's workers: `task` over ranges of Kafka and the object store.

Apart from `tables_spark`, so that a worker imports neither Spark's driver side nor delta-rs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self

from include.lake.tables.bucket_file import RowColumns, bucket_batches
from include.lake.tables.columns import BUCKET
from include.lake.tables.rows import RowReader
from include.lake.tables.task import apply_bucket, first_buckets, gather_records
from include.lake.tables.work import TableBucketResult, TableWork, arrow_schema
from include.log.kafka.log import record_of
from include.log.planning.slices import Slice, cached_consumer
from include.log.ports import Record
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Kafka, Registry, StoreSettings
from include.settings.secret import REVEALED
from include.store.s3 import store_of

__all__ = ["TablesPlan", "apply", "gather", "read_files"]


@dataclass(frozen=True, slots=True)
class TablesPlan:
    """Connections of log, registry and object store, as JSON; hashable, as workers keep what they make of it."""

    connections: str = field(repr=False)

    @classmethod
    def of(cls, kafka: Kafka, registry: Registry, store: StoreSettings) -> Self:
        """The plan of an application."""
        named = {"kafka": kafka, "registry": registry, "store": store}
        said = {
            name: each.model_dump(exclude_unset=True, mode="json", context=REVEALED) for name, each in named.items()
        }
        return cls(json.dumps(said, sort_keys=True))


def gather(plan: TablesPlan, tables: Sequence[TableWork], slices: Sequence[Slice]) -> Mapping[int, bytes]:
    """Common number of a bucket → its work for the records of these slices; an empty share wakes buckets up."""
    first, _ = first_buckets(tables)
    if not slices:
        woken = [each for each in tables if each.whole or each.floor]
        return {first[each.topic] + bucket: b"" for each in woken for bucket in range(each.buckets)}
    tools = _tools(plan)
    readers = {each.topic: tools.reader(each.topic, each.change) for each in tables}
    with cached_consumer(tools.kafka.bootstrap, tools.kafka.options) as consumer:

        def records() -> Iterator[Record]:
            for messages in consumer.read(slices):
                yield from map(record_of, messages)

        return gather_records(tables, readers, records())


def apply(plan: TablesPlan, tables: Sequence[TableWork], number: int, frames: list[bytes]) -> TableBucketResult:
    """The work of the bucket with this common number."""
    first, _ = first_buckets(tables)
    table = next(each for each in reversed(tables) if first[each.topic] <= number)
    tools = _tools(plan)
    rows = tools.rows(table.topic, table.change)
    return apply_bucket(table, number - first[table.topic], frames, rows, tools.store)


def read_files(connection: str, schema: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of (key, bucket) of a table's files → the files' rows, with the bucket behind them."""
    import pyarrow.lib as pa

    arrow = arrow_schema(schema)
    with closing(store_of(StoreSettings.model_validate_json(connection))) as store:
        for batch in batches:
            for each in batch.to_pylist():
                found = store.get(each["key"])
                data = b"" if found is None else found.body
                for rows in bucket_batches([data], arrow, each["key"]):
                    bucket = pa.array([each["bucket"]] * rows.num_rows, pa.int32())
                    yield rows.append_column(BUCKET, bucket)


class _Tools:
    """What tasks of one application share in a process."""

    def __init__(self, plan: TablesPlan) -> None:
        said: dict[str, Any] = json.loads(plan.connections)
        self.kafka = Kafka.model_validate(said["kafka"])
        self.store = store_of(StoreSettings.model_validate(said["store"]))
        self._registry = ConfluentRegistry(Registry.model_validate(said["registry"]))
        self._readers: dict[str, RowReader] = {}
        self._rows: dict[str, RowColumns] = {}

    def reader(self, topic: str, change: bool) -> RowReader:
        if topic not in self._readers:
            self._readers[topic] = RowReader(topic, change=change, schema_of=self._registry.schema)
        return self._readers[topic]

    def rows(self, topic: str, change: bool) -> RowColumns:
        if topic not in self._rows:
            self._rows[topic] = RowColumns(topic, self.reader(topic, change).row_schema)
        return self._rows[topic]


@functools.lru_cache(maxsize=4)
def _tools(plan: TablesPlan) -> _Tools:
    return _Tools(plan)
