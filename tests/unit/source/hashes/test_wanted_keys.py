"""Single rows that are asked for by their keys: as SQL, as the log has them, and from the text that an audit names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.policy.policy import Policy
from include.record.schema import Column, TableSchema
from include.source.hashes import plain
from include.source.hashes.columns import ComparedRows
from include.source.hashes.printed import printed_key
from include.source.rows.shape import TableShape
from include.source.rows.text import row_reader
from include.source.snapshot.wanted_keys import WantedKeys, key_text

EPOCH = dt.datetime(1970, 1, 1)


def shape(*columns: Column, key: tuple[str, ...] = ("k",), by: tuple[str, ...] = ()) -> TableShape:
    return TableShape(columns, TableSchema("shop", "t", columns, key), by)


def bytes_of_decimal(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def micros(at: dt.datetime) -> int:
    return (at - EPOCH) // dt.timedelta(microseconds=1)


MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
KEYS: dict[str, tuple[Column, st.SearchStrategy[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bigint": (Column("k", "bigint"), st.integers(-(2**63), 2**63 - 1), str, int),
    "decimal": (
        Column("k", "decimal", precision=12, scale=4),
        st.integers(-(10**11), 10**11).map(lambda n: Decimal(n).scaleb(-4)),
        lambda value: f"{value:.4f}",
        lambda value: bytes_of_decimal(value, 4),
    ),
    "varchar": (Column("k", "varchar", length=99, charset="utf8mb4"), st.text(max_size=20), str, str),
    "varbinary": (
        Column("k", "varbinary", length=99),
        st.binary(max_size=20),
        lambda value: value,
        lambda value: value,
    ),
    "date": (Column("k", "date"), st.dates(), str, lambda value: (value - EPOCH.date()).days),
    "datetime": (
        Column("k", "datetime", digits=6),
        MOMENTS,
        lambda value: value.isoformat(" ", "microseconds"),
        micros,
    ),
    "timestamp": (
        Column("k", "timestamp", digits=0),
        st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 1)).map(lambda value: value.replace(microsecond=0)),
        lambda value: value.isoformat(" ", "seconds"),
        micros,
    ),
    "time": (
        Column("k", "time", digits=3),
        st.integers(-838 * 3600_000, 838 * 3600_000),
        lambda ms: (
            f"{'-' if ms < 0 else ''}{abs(ms) // 3600_000:02}:{abs(ms) // 60_000 % 60:02}"
            f":{abs(ms) // 1000 % 60:02}.{abs(ms) % 1000:03}"
        ),
        lambda ms: ms * 1000,
    ),
}
"""Kinds of keys: the column, values, what a SELECT shows of one, what a topic has."""


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
def test_a_key_that_an_audit_names_is_the_key_of_the_row_that_a_snapshot_reads(kind: str, data: st.DataObject) -> None:
    column, values, shown, kept = KEYS[kind]
    value = data.draw(values)
    made = shape(column, Column("v", "int"))
    rows = ComparedRows.of(made.columns, made.schema, Policy.declared("accept", {}, ["shop"]).of("shop", "t"))
    topic: dict[str, Any] = {"k": kept(value), "v": 1, rows.invalid: None}
    named = printed_key(rows, plain.key_text(rows, topic).decode())
    wanted = WantedKeys.of(made, ("k",), [key_text({name: str(text) for name, text in named.items()})])
    said = shown(value)
    read = row_reader(made)((said if isinstance(said, bytes) else said.encode(), b"1"))
    (absent,) = wanted.absent(made, set())
    assert absent.key == read.key
    assert wanted.absent(made, {read.key}) == []


def test_keys_become_sql_of_digits_alone() -> None:
    one = shape(Column("k", "int"), Column("v", "text"))
    assert WantedKeys.of(one, ("k",), ['{"k":"7"}', '{"k":"-8"}']).condition == "`k` IN (7, -8)"
    two = shape(Column("a", "varbinary", length=9), Column("b", "varchar", length=9), key=("a", "b"))
    wanted = WantedKeys.of(two, ("a", "b"), ['{"a": "0AFF", "b": "x\' OR 1"}'])
    assert wanted.condition == "((`a` = x'0aff' AND `b` = _utf8mb4 x'7827204f522031'))"


@pytest.mark.parametrize(
    "text",
    ["7", '{"j":"7"}', '{"k":7}', '{"k":"7","v":"1"}', "{", '{"k":"7 OR 1=1"}', '{"k":"3000000000"}', '{"k":"1.5"}'],
)
def test_what_is_no_key_of_the_table_is_refused(text: str) -> None:
    one = shape(Column("k", "int"), Column("v", "text"))
    with pytest.raises(Terminal, match="not a key of the table"):
        _ = WantedKeys.of(one, ("k",), [text]).condition


def test_tables_whose_rows_cannot_be_named_are_refused_with_the_reason() -> None:
    with pytest.raises(Terminal, match="it has no key"):
        WantedKeys.of(shape(Column("k", "int")), (), ["{}"])
    with pytest.raises(Terminal, match="FLOAT"):
        WantedKeys.of(shape(Column("k", "double")), ("k",), ['{"k":"1"}'])


def test_a_row_that_is_gone_has_no_partition_where_others_columns_choose_it() -> None:
    made = shape(Column("k", "int"), Column("part", "int"), by=("part",))
    wanted = WantedKeys.of(made, ("k",), ['{"k":"7"}'])
    there = row_reader(made)((b"7", b"1"))
    assert wanted.absent(made, {there.key}) == []
    with pytest.raises(Terminal, match="which partition"):
        wanted.absent(made, set())
