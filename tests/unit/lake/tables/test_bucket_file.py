"""A bucket's file after any changes holds what a plain dictionary would."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.lake.tables.bucket_file import RewrittenBucket, RowColumns, rewritten
from include.lake.tables.columns import KEY, VERSION, Columns
from include.lake.tables.rows import RowChange

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": ["null", "int"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}]},
    ],
}
PARSED = fastavro.parse_schema(SCHEMA)
ARROW = pa.schema([pa.field(KEY, pa.binary()), pa.field(VERSION, pa.int64()), *Columns(SCHEMA).arrow])
Model = dict[bytes, tuple[int, int]]


def avro(id_: int, name: str = "x") -> bytes:
    from decimal import Decimal

    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, {"id": id_, "name": name, "price": Decimal("1.25")})
    return out.getvalue()


def put(key: int, version: int, id_: int | None = None, offset: int = 0) -> RowChange:
    return RowChange(b"%d" % key, version, 7, avro(version if id_ is None else id_), 0, offset)


def gone(key: int, version: int) -> RowChange:
    return RowChange(b"%d" % key, version, 0, None, 0, 0)


def rows() -> RowColumns:
    return RowColumns("t", lambda _: SCHEMA)


def apply(old: bytes | None, changes: list[RowChange], floor: int = 0) -> RewrittenBucket:
    return rewritten([old] if old else [], {each.key: each for each in changes}, floor, ARROW, rows(), "t/0")


def held(file: bytes | None) -> Model:
    if file is None:
        return {}
    table = pq.read_table(pa.BufferReader(file))
    assert table.schema.names == ARROW.names
    found = table.to_pylist()
    assert len({each[KEY] for each in found}) == len(found)
    return {each[KEY]: (each[VERSION], each["id"]) for each in found}


def test_rows_come_with_their_columns_and_statistics() -> None:
    made = apply(None, [put(1, 10), put(2, 20)])
    assert held(made.file) == {b"1": (10, 10), b"2": (20, 20)}
    assert made.rows == 2
    assert '"numRecords":2' in made.stats
    assert '"minValues":{"_version":10,"id":10}' in made.stats
    first = pq.read_table(pa.BufferReader(made.file)).to_pylist()[0]
    assert str(first["price"]) == "1.25"


def test_equal_input_gives_equal_bytes() -> None:
    old = apply(None, [put(key, 1) for key in range(50)]).file
    changes = [put(3, 5), gone(4, 6), put(99, 7)]
    assert apply(old, changes).file == apply(old, changes).file


def test_an_older_change_leaves_the_row_and_an_older_delete_too() -> None:
    old = apply(None, [put(1, 10), put(2, 10)]).file
    made = apply(old, [put(1, 9), gone(2, 9)])
    assert held(made.file) == {b"1": (10, 10), b"2": (10, 10)}
    assert made.counts["stale"] == 2
    assert made.counts["written"] == made.counts["deleted"] == 0


def test_the_last_row_takes_the_file_with_it() -> None:
    made = apply(apply(None, [put(1, 10)]).file, [gone(1, 11)])
    assert (made.file, made.rows) == (None, 0)
    assert made.counts["deleted"] == 1


def test_rows_below_the_floor_go_and_none_comes_in_below_it() -> None:
    old = apply(None, [put(1, 10), put(2, 30)]).file
    made = apply(old, [put(3, 15), put(4, 40)], floor=20)
    assert held(made.file) == {b"2": (30, 30), b"4": (40, 40)}
    assert (made.counts["floor_removed"], made.counts["below_floor"]) == (1, 1)


def test_a_row_that_does_not_fit_its_columns_leaves_its_key_as_it_was() -> None:
    old = apply(None, [put(1, 10)]).file
    out = io.BytesIO()
    plain = {**SCHEMA, "fields": [*SCHEMA["fields"][:2], {"name": "price", "type": ["null", "bytes"]}]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), {"id": 1, "name": "x", "price": b"\x7f\xff\xff"})
    bad = RowChange(b"1", 11, 7, out.getvalue(), 3, 44)
    made = apply(old, [bad, put(2, 12)])
    assert held(made.file) == {b"1": (10, 10), b"2": (12, 12)}
    ((topic, partition, offset, reason),) = made.refused
    assert (topic, partition, offset) == ("t", 3, 44)
    assert "digits" in reason


def test_bytes_that_are_no_row_are_refused_with_their_place() -> None:
    made = apply(None, [RowChange(b"1", 1, 7, b"\x02", 1, 5), put(2, 2)])
    assert held(made.file) == {b"2": (2, 2)}
    assert [each[:3] for each in made.refused] == [("t", 1, 5)]


def test_a_damaged_file_is_named_with_its_bucket() -> None:
    with pytest.raises(Terminal, match=r"damaged.*t/0.*rebuild"):
        apply(b"PAR1 nothing PAR1", [put(1, 1)])


def test_files_of_before_a_column_came_have_nulls_there_and_narrow_ones_are_widened() -> None:
    old = apply(None, [put(1, 10)]).file
    wide = pa.schema([*ARROW, pa.field("note", pa.string())]).set(2, pa.field("id", pa.int64()))
    made = rewritten([old or b""], {}, 0, wide, rows(), "t/0")
    table = pq.read_table(pa.BufferReader(made.file))
    assert table.schema.field("id").type == pa.int64()
    assert table["note"].to_pylist() == [None]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.integers(1, 40), st.booleans()), max_size=8).map(
            lambda batch: {key: (version, live) for key, version, live in batch}
        ),
        max_size=6,
    ),
    st.sampled_from([0, 15]),
)
def test_any_batches_leave_the_newest_row_of_each_key(batches: list[dict[int, tuple[int, bool]]], floor: int) -> None:
    model: Model = {}
    file: bytes | None = None
    for batch in batches:
        made = apply(file, [put(k, v) if live else gone(k, v) for k, (v, live) in batch.items()], floor)
        for key, (version, live) in batch.items():
            if version >= floor and model.get(b"%d" % key, (0, 0))[0] < version:
                model.pop(b"%d" % key, None)
                if live:
                    model[b"%d" % key] = version, version
        file = made.file
        assert held(file) == model
        assert made.rows == len(model)


def test_columns_of_the_tables_own_and_of_case_alone_are_refused() -> None:
    from include.errors import InvalidRecord

    def of(*names: str) -> Mapping[str, Any]:
        return {"type": "record", "name": "r", "fields": [{"name": name, "type": "int"} for name in names]}

    for names in (("_key",), ("_Version",), ("a", "A")):
        with pytest.raises(InvalidRecord):
            Columns(of(*names))
