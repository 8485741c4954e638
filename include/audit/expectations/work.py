"""Spark tasks on Arrow batches: read ids and versions of records, then decode the fields of living documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from include.audit.expectations.columns import Body, reader_of
from include.errors import InvalidRecord
from include.index.states import States
from include.log.ports import SchemaRegistry
from include.record.codec import unframe

__all__ = ["NEWEST", "UNREADABLE", "decoded", "identified"]

NEWEST: Final = "doc_id string, version long, offset long, schema_id int, value binary"
"""Rows of `identified`."""
UNREADABLE: Final = "_unreadable"
"""Column of `decoded` beside the key and the fields: how many records of a row without a key cannot be read."""


def identified(states: States, batches: Iterable[Any]) -> Iterator[Any]:
    """Id, version and bytes of each record; all null for one whose id or version cannot be read.

    Left out are records that make no document: without key and value, or below the floor of a table that was emptied.
    """
    import pyarrow

    pa: Any = pyarrow
    kinds = {"doc_id": pa.string(), "version": pa.int64(), "offset": pa.int64(), "schema_id": pa.int32()}
    schema = pa.schema({**kinds, "value": pa.binary()})
    for batch in batches:
        rows = [found for row in batch.to_pylist() if (found := _identity(states, row)) is not None]
        yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _identity(states: States, row: Mapping[str, Any]) -> tuple[Any, ...] | None:
    key, value = _bytes(row["key"]), _bytes(row["value"])
    if not states.makes_document(value):
        return None
    headers = tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ())
    try:
        doc_id, version = states.identity(row["partition"], row["offset"], key, headers)
    except InvalidRecord:
        return (None,) * 5
    if version < states.feed.floor:
        return None
    return doc_id, version, row["offset"], _schema_id(value), value


def _schema_id(value: bytes | None) -> int | None:
    try:
        return None if value is None else unframe(value)[0]
    except InvalidRecord:
        return None


def decoded(body: Body, schema: Any, registry: Callable[[], SchemaRegistry], batches: Iterable[Any]) -> Iterator[Any]:
    """Documents of the newest record of each key, in columns of `schema`: the key, `UNREADABLE`, fields of `body`.

    Args:
        body: how fields become columns.
        schema: Arrow's, as Spark wants it.
        registry: opened once for each task.
        batches: of `doc_id`, `value` and `records`, those without a `doc_id` being so many unreadable records.
    """
    import pyarrow

    pa: Any = pyarrow
    read = reader_of(body, registry())
    names = schema.names[2:]
    for batch in batches:
        documents: list[tuple[str | None, Mapping[str, Any], int]] = []
        for row in batch.to_pylist():
            if row["doc_id"] is None:
                documents.append((None, {}, row["records"]))
                continue
            try:
                fields = read(row["value"])
            except InvalidRecord:
                documents.append((None, {}, 1))
                continue
            if fields is not None:
                documents.append((row["doc_id"], fields, 0))
        try:
            arrays = [body.array(name, [fields for _, fields, _ in documents]) for name in names]
        except InvalidRecord:
            # Only those that do not fit are left out: they are few, or the columns would not be theirs.
            documents = [each if body.fits(each[1]) else (None, {}, 1) for each in documents]
            arrays = [body.array(name, [fields for _, fields, _ in documents]) for name in names]
        arrays = [array.cast(schema.field(name).type) for name, array in zip(names, arrays, strict=True)]
        ids = pa.array([doc_id for doc_id, _, _ in documents], pa.string())
        unreadable = pa.array([records for _, _, records in documents], pa.int64())
        yield pa.RecordBatch.from_arrays([ids, unreadable, *arrays], schema=schema)


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
