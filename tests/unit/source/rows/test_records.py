"""Records of rows: what a row's change becomes, and that compiled and Python records are the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.schema import Column, TableSchema
from include.source.binlog.step import RowsEvent
from include.source.binlog.table_map import TableMap
from include.source.rows import encode
from include.source.rows.decoder import NativeImages
from include.source.rows.encode import Stamp, TableEncoder
from include.source.rows.images import RowImages
from include.source.rows.layout import Field, Layout
from include.source.rows.records import Encoded, RowRecords, encoded
from include.source.rows.shape import TableShape
from tests.support.binlog.random_row_images import KINDS, event, layout_of

MAP = TableMap(7, "d", "t", b"\x03", (0,), (False,), (), signs_known=False)
STAMP = Stamp(server_id=1, file="bin.000001", pos=4, commit_us=10**15, made_us=10**15 + 7, gtid="0-1-5", thread=9)
PLAIN = Stamp(server_id=2**32 - 1, file="b", pos=0, commit_us=0, made_us=1)
FIELDS = (Field(Column("id", "int"), "int", 4), Field(Column("v", "tinyint"), "int", 1))


def records(layout: Layout, partitions: int = 7) -> RowRecords:
    return RowRecords(layout, TableEncoder("s", layout.shape.schema, 5, 6, partitions), queries=True)


def two_columns(by: tuple[str, ...] = ()) -> Layout:
    columns = tuple(field.column for field in FIELDS)
    return Layout(TableShape(columns, TableSchema("d", "t", columns, ("id",)), by), FIELDS)


def small(by: tuple[str, ...] = ()) -> RowRecords:
    return records(two_columns(by))


def update(*rows: tuple[int, int, int, int]) -> RowsEvent:
    images = (
        b"\0" + number.to_bytes(4, "little") + bytes((v,)) for a, b, c, d in rows for number, v in ((a, b), (c, d))
    )
    return RowsEvent(MAP, "u", b"\x02\xff\xff" + b"".join(images))


def ops(found: tuple[list[Encoded], int]) -> tuple[list[str], int]:
    return [op for op, *_ in found[0]], found[1]


def test_an_update_is_one_record_unless_its_key_or_partition_changes() -> None:
    step = update((1, 1, 1, 2), (1, 1, 2, 1), (3, 3, 3, 3))
    assert ops(small().of(step, STAMP)) == (["u", "d", "c", "u"], 3)
    assert ops(small(by=("v",)).of(step, STAMP)) == (["d", "c", "d", "c", "u"], 3)


def test_rows_without_images_give_no_records() -> None:
    assert small().of(RowsEvent(MAP, "c", b"\x02\xff"), STAMP) == ([], 0)


@pytest.mark.parametrize("by", [(), ("v",)], ids=["together", "moved"])
def test_a_statement_s_text_leaves_only_where_the_source_asks_for_it(by: tuple[str, ...]) -> None:
    silent = update((1, 1, 1, 2))
    told = RowsEvent(MAP, silent.op, silent.body, query="UPDATE t SET secret = 1")
    layout = two_columns(by)
    quiet = RowRecords(layout, TableEncoder("s", layout.shape.schema, 5, 6, 7))
    assert quiet.of(told, STAMP) == small(by).of(silent, STAMP) != small(by).of(told, STAMP)
    assert all(b"secret" in value for *_, value in small(by).of(told, STAMP)[0])


def test_an_event_that_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(Terminal, match="a row cannot be read") as refused:
        small().of(RowsEvent(MAP, "c", b"\x02\xff\0\1"), STAMP)
    assert refused.value.details["table"] == "d.t"


@pytest.mark.compiled
@settings(max_examples=100, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=6).map(tuple),
    op=st.sampled_from(("c", "u", "d")),
    seed=st.integers(0, 2**64 - 1),
    stamp=st.sampled_from((STAMP, PLAIN)),
    partitions=st.integers(1, 2**31 - 1),
    row=st.integers(0, 2**40),
    of_table=st.integers(1, 2**40),
    query=st.none() | st.text(max_size=9),
    damage=st.booleans(),
)
def test_compiled_and_python_records_are_the_same_bytes(
    kinds: tuple[str, ...],
    op: str,
    seed: int,
    stamp: Stamp,
    partitions: int,
    row: int,
    of_table: int,
    query: str | None,
    damage: bool,
) -> None:
    random = Random(seed)
    layout = layout_of(random, kinds)
    body = bytearray(event(random, layout, 2 if op == "u" else 1, 3))
    if damage:
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)
    both = records(layout, partitions)
    step = RowsEvent(MAP, op, bytes(body), query=query)  # type: ignore[arg-type]
    assert isinstance(both.images, NativeImages)
    parts = both.encoder.parts(stamp, query)
    alone = both.images.decoder.records(step.op, step.body, both._envelope, parts, row, of_table)  # type: ignore[arg-type]
    expected = outcome(lambda: by_python(both, layout, step, stamp, row, of_table))
    assert outcome(lambda: both.of(step, stamp, row, of_table)) == expected
    assert alone == (None if isinstance(expected, str) else expected) or (alone is None and damage)


def by_python(
    both: RowRecords, layout: Layout, step: RowsEvent, stamp: Stamp, row: int, of_table: int
) -> tuple[list[Encoded], int]:
    pairs = RowImages(layout).rows(step.op, step.body)
    return encoded(pairs, both.encoder, stamp, row, of_table, step.query), len(pairs)


def outcome(function: Callable[[], tuple[list[Encoded], int]]) -> tuple[list[Encoded], int] | str:
    try:
        return function()
    except Terminal as error:
        return str(error)


@pytest.mark.compiled
@given(
    server_id=st.integers(0, 2**32 - 1),
    file=st.text(max_size=150),
    pos=st.integers(0, 2**63 - 1),
    commit_us=st.integers(-9, 2**53),
    made_us=st.integers(-9, 2**63 - 1),
    gtid=st.none() | st.text(max_size=150),
    snapshot=st.sampled_from((None, "true")),
    thread=st.none() | st.integers(0, 2**63 - 1),
)
def test_compiled_and_python_stamps_are_the_same_bytes(**told: Any) -> None:
    one = Stamp(**told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_compiled", lambda *_: None)
        assert vars(one) == vars(Stamp(**told))
