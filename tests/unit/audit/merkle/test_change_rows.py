"""Changes of a topic as rows of columns: what cannot be read is a row without a key, whatever it asks for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from include.audit.merkle.change_rows import LIVE, ChangeRows
from include.audit.merkle.moments import Moments
from include.lake.tables.columns import KEY, VERSION, Columns
from include.log.memory import MemoryRegistry
from include.log.ports import Record
from include.record.codec import Encoder
from include.record.schema import Column, TableSchema
from include.record.version import to_header
from tests.support.record.random_avro import HOSTILE, long, wire

pytestmark = pytest.mark.unit

TABLE = TableSchema("d", "items", (Column("id", "int"), Column("name", "text")), ("id",))
NULLS = {"type": "record", "name": "K", "fields": [{"name": "id", "type": {"type": "array", "items": "null"}}]}
TOPIC = "cdc.s.d.items"


def made(registry: Any) -> ChangeRows:
    envelope = TABLE.envelope_avro("s")
    row = envelope["fields"][0]["type"][1]
    own = [pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64())]
    schema = pa.schema([*own, *Columns(row).arrow])
    return ChangeRows(TOPIC, schema, row, Moments([]), {0: 100}, registry)


def keys_of(lookup: Any, key: bytes) -> list[tuple[bytes | None, bool | None, int | None]]:
    """(key, live, id) of a record that deletes and one whose key is this, one after the other."""
    registry = MemoryRegistry()
    key_schema = TABLE.key_avro("s")
    good = Encoder(registry.register("k", key_schema), key_schema)({"id": 7})
    header = (to_header(1),)
    records = [Record(TOPIC, 0, i, each, None, header) for i, each in enumerate((good, key))]

    def schema_of(schema_id: int) -> Any:
        return registry.schema(schema_id) if schema_id != 99 else lookup

    return [(row[KEY], row[LIVE], row["id"]) for table in made(schema_of).tables(records) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        *((schema, bytes(10_000)) for schema in HOSTILE.values()),
        (NULLS, long(10**9) + long(0)),
        ("string", long(1) + b"a"),
        (TABLE.key_avro("s"), b""),
    ],
    ids=[*HOSTILE, "a billion nulls", "a text", "cut"],
)
def test_a_delete_whose_key_cannot_be_read_is_a_row_without_a_key_and_others_go_on(schema: Any, body: bytes) -> None:
    good, bad = keys_of(schema, wire(99, body))
    assert good[1:] == (False, 7)
    assert bad == (None, None, None)
