"""Does a task's part of a batch: ranges of topics in, buckets' new files out. Knows no Spark.

Tables of a batch share their buckets' numbers: those of the first table come first.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from include.lake.tables.bucket_file import RowColumns, rewritten
from include.lake.tables.columns import merged_schema
from include.lake.tables.delta_log import DataFile
from include.lake.tables.rows import RefusedRow, RowReader, TaskRows, newest
from include.lake.tables.work import TableBucketResult, TableWork, arrow_bytes, arrow_schema
from include.log.ports import Record
from include.store.object_store import PART_BYTES, ObjectStore

__all__ = ["apply_bucket", "first_buckets", "gather_records"]

_ROWS: Final = b"r"
_TOLD: Final = b"t"


def first_buckets(tables: Sequence[TableWork]) -> tuple[dict[str, int], int]:
    """Topic → the common number of its table's first bucket; and how many there are in all."""
    first, at = {}, 0
    for each in tables:
        first[each.topic] = at
        at += each.buckets
    return first, at


def gather_records(
    tables: Sequence[TableWork], readers: Mapping[str, RowReader], records: Iterable[Record]
) -> dict[int, bytes]:
    """Common number of a bucket → what it has to do for these records.

    What was read and refused of a topic goes with the first of its buckets that has anything to do.
    """
    first, _ = first_buckets(tables)
    gathered = {table.topic: TaskRows(table.buckets) for table in tables}
    for record in records:
        gathered[record.topic].take(readers[record.topic], record)
    frames: dict[int, bytes] = {}
    for topic, task_rows in gathered.items():
        packed = {first[topic] + bucket: _ROWS + data for bucket, data in task_rows.packed().items()}
        if task_rows.counts:
            told = min(packed, default=first[topic])
            plain = dict(task_rows.counts), [tuple(one) for one in task_rows.refused], packed.get(told, b"")
            packed[told] = _TOLD + pickle.dumps(plain, pickle.HIGHEST_PROTOCOL)
        frames |= packed
    return frames


def apply_bucket(
    table: TableWork, bucket: int, frames: Sequence[bytes], rows: RowColumns, store: ObjectStore
) -> TableBucketResult:
    """Write the bucket's file anew with what its frames bring, unless they bring nothing.

    May run again, on another host too: it writes the same bytes under the same name. Raises `InvalidRecord` where no
    row of a schema can be columns, `Terminal` for columns that contradict the table's and for damaged files, and what
    the store raises.
    """
    counts: Counter[str] = Counter()
    refused: list[RefusedRow] = []
    packed: list[bytes] = []
    for frame in frames:
        data = frame
        if frame[:1] == _TOLD:
            told, bad, data = pickle.loads(frame[1:])  # noqa: S301 - this application's own workers made it
            counts.update(told)
            refused += [RefusedRow(*each) for each in bad]
        if data:
            packed.append(data[1:])
    changes, superseded = newest(packed)
    counts["superseded"] += superseded
    old = tuple(table.files.get(bucket, ()))
    schema, wider = arrow_schema(table.schema), tuple[str, ...]()
    for schema_id in sorted({change.schema_id for change in changes.values() if change.row is not None}):
        schema, more = merged_schema(schema, rows.columns(schema_id).arrow, table.topic)
        wider += more
    if wider and not table.whole:
        return TableBucketResult(bucket, None, (), arrow_bytes(schema), tuple(dict.fromkeys(wider)))
    if not changes and not table.whole and not (table.floor and old):
        return TableBucketResult(bucket, None, (), table.schema, (), refused, counts)
    place = f"{table.topic}/{bucket}"
    made = rewritten([_fetched(store, table, file) for file in old], changes, table.floor, schema, rows, place)
    counts.update(made.counts)
    refused += made.refused
    counts["refused"] += len(made.refused)
    if not (made.counts["written"] or made.counts["removed"] or made.counts["floor_removed"] or table.whole):
        return TableBucketResult(bucket, None, (), table.schema, (), refused, counts)
    added = None
    if made.file is not None:
        added = DataFile(
            f"_bucket={bucket}/{table.token}-{bucket:05}.parquet", bucket, len(made.file), made.rows, made.stats
        )
        _put(store, f"{table.folder}/{added.path}", made.file)
    return TableBucketResult(bucket, added, old, arrow_bytes(schema), (), refused, counts)


def _fetched(store: ObjectStore, table: TableWork, file: DataFile) -> bytes:
    found = store.get(f"{table.folder}/{file.path}")
    # A file that is gone is damaged, as one that was cut short: the reading of it says so.
    return b"" if found is None else found.body


def _put(store: ObjectStore, key: str, body: bytes) -> None:
    if len(body) <= PART_BYTES:
        store.put(key, body)
        return
    store.upload(key, (body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)))
