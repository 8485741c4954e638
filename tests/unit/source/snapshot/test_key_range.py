"""Ranges of keys: their SQL, and what is left of a table whatever is taken, finished, put back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.record.schema import Column
from include.source.snapshot.key_order import KeyOrder, Ledger
from include.source.state.key_range import WHOLE, KeyRange

ID = Column("id", "bigint")
NAME = Column("na`me", "varchar", charset="utf8mb3")
TAG = Column("tag", "varbinary")
KIND = Column("kind", "enum", labels=("b", "a"))
DAY = Column("day", "date")


def test_the_first_range_of_a_table_has_no_bounds_and_no_condition() -> None:
    assert KeyOrder([ID], ["id"]).condition(WHOLE) == ""


def test_a_range_begins_behind_one_key_and_ends_with_another() -> None:
    order = KeyOrder([ID], ["id"])
    assert order.condition(KeyRange(("7",), ("-9.5",))) == "`id` > 7 AND `id` <= -9.5"
    assert (order.order, order.bound) == ("`id`", "`id`")


def test_keys_of_several_columns_are_compared_column_by_column() -> None:
    order = KeyOrder([DAY, ID], ["id", "day"])
    assert order.condition(KeyRange(("1", "2026-02-31"), None)) == (
        "((`id` > 1) OR (`id` = 1 AND `day` > '2026-02-31'))"
    )
    assert order.condition(KeyRange(None, ("1", "0000-00-00"))) == (
        "((`id` < 1) OR (`id` = 1 AND `day` <= '0000-00-00'))"
    )


def test_texts_are_bounded_by_the_bytes_that_the_server_keeps() -> None:
    order = KeyOrder([NAME, TAG, KIND], ["na`me", "tag", "kind"])
    assert order.bound == "HEX(CAST(`na``me` AS BINARY)), HEX(`tag`), `kind` + 0"
    assert "`na``me` > _utf8 x'C3A9'" in order.condition(KeyRange(("C3A9", "00", "2"), None))
    assert "`tag` > x'00'" in order.condition(KeyRange(("C3A9", "00", "2"), None))


@pytest.mark.parametrize(
    ("columns", "bound"),
    [
        ([ID], ("1 OR 1=1",)),
        ([NAME], ("C3'",)),
        ([NAME], ("C3A",)),
        ([DAY], ("2026' OR '1",)),
        ([KIND], ("a",)),
        ([ID], ("1", "2")),
        ([ID], ()),
    ],
)
def test_a_bound_that_is_none_of_the_key_is_refused(columns: list[Column], bound: tuple[str, ...]) -> None:
    order = KeyOrder(columns, [column.name for column in columns])
    with pytest.raises(Terminal, match="none of the table's key"):
        order.condition(KeyRange(bound, None))


def test_tables_without_a_key_or_with_one_that_rounds_are_read_whole() -> None:
    ratio = Column("ratio", "double")
    for order in (
        KeyOrder([ID], []),
        KeyOrder([ID, ratio], ["id", "ratio"]),
        KeyOrder([NAME], ["na`me"], prefixed=True),
    ):
        assert not order.divides
        assert order.condition(WHOLE) == ""
        with pytest.raises(Terminal, match="none of the table's key"):
            order.condition(KeyRange(("1",), None))


def _covers(left: tuple[KeyRange, ...], number: int) -> bool:
    return any(
        (each.after is None or number > int(each.after[0])) and (each.upto is None or number <= int(each.upto[0]))
        for each in left
    )


@given(st.lists(st.tuples(st.sampled_from(["take", "finish", "put_back"]), st.integers(0, 30)), max_size=60))
def test_what_is_finished_is_left_no_more_and_all_else_is(steps: list[tuple[str, int]]) -> None:
    keys = range(100)
    ledger, taken, finished = Ledger(), list[KeyRange](), set[int]()

    def cut(left: KeyRange) -> tuple[str, ...] | None:
        inside = [key for key in keys if _covers((left,), key)]
        return (str(inside[6]),) if len(inside) > 7 else None

    for what, place in steps:
        if what == "take":
            rows = ledger.take(cut)
            if rows is not None:
                assert not any(_covers(tuple(taken), key) and _covers((rows,), key) for key in keys)
                taken.append(rows)
        elif taken:
            rows = taken.pop(place % len(taken))
            if what == "finish":
                ledger.finish(rows)
                finished |= {key for key in keys if _covers((rows,), key)}
            else:
                ledger.put_back(rows)
        # What a restart would read is all that is not finished, and nothing that is.
        assert {key for key in keys if not _covers(ledger.left, key)} == finished
        assert len(ledger.left) <= len(taken) + 1 + len(finished)
    while (rows := ledger.take(cut)) is not None:
        taken.append(rows)
    for rows in taken:
        ledger.finish(rows)
    assert ledger.left == ()


def test_ranges_keep_their_bounds_in_the_resolved_record() -> None:
    for rows in (WHOLE, KeyRange(("1", "C3"), None), KeyRange(None, ("2",))):
        assert KeyRange.from_json(rows.to_json()) == rows
