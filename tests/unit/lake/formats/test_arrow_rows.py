"""Rows as columns without decoding them: the same as of decoded rows, or none at all."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import InvalidRecord
from include.lake.formats.arrow_columns import columns_of
from include.lake.formats.arrow_rows import _Decoded
from include.lake.formats.avro_schemas import plain_schema
from include.lake.tables.columns import Columns
from tests.support.record.random_avro import damaged, encoded, long, schema_of

pytestmark = pytest.mark.unit
seeds = st.integers(0, 2**64 - 1)
KNOWN: list[Any] = [
    "boolean", "int", "long", "float", "double", "string", "bytes",
    {"type": "enum", "name": "E", "symbols": ["new", "paid"]},
    {"type": "fixed", "name": "F", "size": 5},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6},
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "map", "values": "string"},
]  # fmt: skip


def decoded(columns: Columns, rows: list[bytes]) -> Any:
    """The table of rows read one by one; None where one of them is none."""
    parsed = fastavro.parse_schema(plain_schema(columns.schema))
    try:
        said: list[Any] = [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in rows]
        return columns.table(said, columns.arrow)
    except (InvalidRecord, EOFError, ValueError, IndexError, UnicodeError, OverflowError, TypeError):
        return None


def check(columns: Columns, rows: list[bytes]) -> bool:
    """Whether there were columns; they are those of the decoded rows."""
    found = columns.table_of(rows, columns.arrow)
    if found is None:
        return False
    found.validate(full=True)
    truth = decoded(columns, rows)
    assert truth is not None
    # As Arrow prints them: a number that is none is not equal to itself, and Python has no moments of all years.
    for one, other in zip(found.columns, truth.columns, strict=True):
        printed = [each.combine_chunks().to_string(window=500) for each in (one, other)]
        assert printed[0] == printed[1]
    assert found.schema == truth.schema
    return True


@pytest.mark.compiled
@pytest.mark.parametrize(
    "kind", KNOWN, ids=lambda kind: kind if isinstance(kind, str) else "-".join(map(str, kind.values()))
)
def test_columns_of_every_type_are_those_of_decoded_rows(kind: Any) -> None:
    random = Random(7)
    fields = [("a", kind), ("b", ["null", _again(kind)]), ("c", [_again(kind), "null"]), ("d", "long")]
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": each} for name, each in fields]}
    columns = Columns(schema)
    assert check(columns, [])
    fitting = [
        row for row in (encoded(random, schema, odd=0) for _ in range(300)) if decoded(columns, [row]) is not None
    ]
    assert len(fitting) > 20
    assert check(columns, fitting)


def _again(kind: Any) -> Any:
    return kind["name"] if isinstance(kind, dict) and "name" in kind else kind


def test_a_billion_values_without_bytes_are_never_made() -> None:
    """Also where nobody has looked at the row before."""

    def alone(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}

    (column,) = columns_of(alone({"type": "array", "items": "int"}), target="delta")
    made = _Decoded.of(alone({"type": "array", "items": "null"}), 0, column)
    assert made is not None
    with pytest.raises(InvalidRecord, match="too many values without bytes"):
        made([long(10**9) + long(0)], 1)


@settings(max_examples=300)
@given(seeds)
def test_columns_of_any_record_are_those_of_decoded_rows_or_none(seed: int) -> None:
    random = Random(seed)
    schema = schema_of(random)
    try:
        columns = Columns(schema)
        columns.arrow  # noqa: B018 - refuses what has no columns
    except (InvalidRecord, AttributeError, KeyError, TypeError):
        return
    rows = [encoded(random, schema, odd=random.choice((0, 0, 0.05))) for _ in range(random.randrange(9))]
    check(columns, rows)
    if rows:
        check(columns, [*rows, damaged(random, rows[0])])
