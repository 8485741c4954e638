"""Avro pieces as what SELECT shows."""

from __future__ import annotations

import math
import struct

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.record.schema import Column, TableSchema
from include.record.value_texts import shortest
from include.source.rows.avro import NULL, decimal, long_piece
from include.source.rows.columns import column_of
from include.source.rows.other_types import vector_piece
from include.source.rows.render import RowRenderer, text_of
from include.source.rows.shape import TableShape


def shape(*columns: Column) -> TableShape:
    return TableShape(columns, TableSchema("d", "t", columns, (columns[0].name,)))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_shown_by_the_shortest_number_that_reads_back(value: float) -> None:
    data = struct.pack("<f", value)
    found = shortest(data)
    assert struct.pack("<f", found) == data
    mantissa = f"{found:e}".split("e")[0].strip("-0.").replace(".", "")
    assert len(mantissa) <= 9


@pytest.mark.parametrize(("bits", "text"), [(1, "1e-45"), (0x3DCCCCCD, "0.1"), (0x7F7FFFFF, "3.4028235e+38")])
def test_floats_at_the_edges_have_few_digits(bits: int, text: str) -> None:
    assert orjson.dumps(shortest(struct.pack("<I", bits))).decode() == text


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_numbers_that_json_does_not_have_are_texts(value: float, text: str) -> None:
    renderer = RowRenderer(shape(Column("f", "float"), Column("d", "double"), Column("v", "vector", length=1)))
    row = (
        b"\x02" + struct.pack("<f", value) + b"\x02" + struct.pack("<d", value) + vector_piece(struct.pack("<f", value))
    )
    assert renderer.row(row) == {"f": text, "d": text, "v": [text]}


@pytest.mark.parametrize(
    ("kind", "piece", "text"),
    [
        ("time(2)", long_piece(-(838 * 3600 + 59 * 60 + 59) * 1_000_000 - 990_000), b"-838:59:59.99"),
        ("time", long_piece(0), b"00:00:00"),
        ("datetime(6)", long_piece(-62135596800 * 1_000_000 + 1), b"0001-01-01 00:00:00.000001"),
        ("date", long_piece(-719162), b"0001-01-01"),
        ("decimal(5,5)", b"\x02" + decimal(-1), b"-0.00001"),
        ("decimal(3,0)", b"\x02" + decimal(-128), b"-128"),
        ("bigint(20) unsigned", b"\x02" + decimal(2**64 - 1), b"18446744073709551615"),
        ("bit(64)", b"\x02" + decimal(2**64 - 1), b"18446744073709551615"),
        ("blob", b"\x02\x04\x00\xff", b"\x00\xff"),
        ("int", NULL, None),
    ],
)
def test_pieces_have_the_texts_of_select(kind: str, piece: bytes, text: bytes | None) -> None:
    assert text_of(column_of("c", kind), piece) == text


def test_pieces_that_are_not_there_are_left_out_and_odd_dates_are_their_text() -> None:
    renderer = RowRenderer(shape(Column("a", "int"), Column("b", "date"), Column("c", "date")))
    assert renderer.cells([None, NULL, None], [("b", "2026-02-31")]) == {"b": "2026-02-31"}
    assert renderer.cells([long_piece(7), NULL, long_piece(0)], []) == {"a": 7, "b": None, "c": "1970-01-01"}
