"""Texts of values read by SELECT equal those of the same values in the log, so both are masked alike."""

from __future__ import annotations

import io
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.record.schema import Column
from include.record.value_texts import value_text
from include.source.rows.render import text_of

HOURS_838_US = 839 * 3_600_000_000 - 1
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
YEARS = (-719162 * 86_400_000_000, 2932897 * 86_400_000_000 - 1)
VALUES = st.one_of(
    st.tuples(st.just(Column("c", "int")), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(Column("c", "bigint")), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(Column("c", "bigint", unsigned=True)), st.integers(0, 2**64 - 1).map(Decimal)),
    st.tuples(st.just(Column("c", "decimal", precision=12, scale=2)), st.decimals(-(10**9), 10**9, places=2)),
    st.tuples(st.just(Column("c", "float")), FLOATS),
    st.tuples(st.just(Column("c", "double")), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(Column("c", "varchar")), st.text(st.characters(exclude_categories=["Cs"]))),
    st.tuples(st.just(Column("c", "varbinary")), st.binary()),
    st.tuples(st.just(Column("c", "date")), st.integers(-719162, 2932896)),
    *(
        st.tuples(st.builds(Column, st.just("c"), st.just(kind), digits=st.integers(0, 6)), st.integers(*bounds))
        for kind, bounds in (
            ("datetime", YEARS),
            ("timestamp", (0, 2**31 * 1_000_000)),
            ("time", (-HOURS_838_US, HOURS_838_US)),
        )
    ),
)


@given(VALUES)
def test_a_value_has_the_text_that_its_avro_piece_has(each: tuple[Column, Any]) -> None:
    column, value = each
    if column.digits < 6 and column.type in ("datetime", "timestamp", "time"):
        step = 10 ** (6 - column.digits)
        value = value // step * step
    out = io.BytesIO()
    if isinstance(value, Decimal) and value.is_zero():
        value = abs(value)  # no server has another
    schema = ["null", {"type": "long"} if column.type in ("datetime", "timestamp") else column.avro()]
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    assert value_text(column, value) == text_of(column, out.getvalue())


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (Column("c", "float"), struct.unpack("<f", struct.pack("<f", 0.1))[0], b"0.1"),
        (Column("c", "datetime", digits=3), 1_500, b"1970-01-01 00:00:00.001"),
        (Column("c", "time"), -90_000_000, b"-00:01:30"),
        (Column("c", "decimal"), Decimal("1E+2"), b"100"),
        (Column("c", "year"), 1999, b"1999"),
    ],
)
def test_values_have_the_texts_of_select(column: Column, value: Any, text: bytes) -> None:
    assert value_text(column, value) == text
