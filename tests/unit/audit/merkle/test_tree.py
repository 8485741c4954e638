"""Two sets of rows: a tree finds the leaves that differ, and the rows of these what is wrong with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.audit.merkle.rows import DifferingRow, differences
from include.audit.merkle.tree import Tree
from include.policy.policy import Policy
from include.record.schema import Column, TableSchema
from include.source.hashes import plain
from include.source.hashes.columns import ComparedColumn, ComparedRows
from include.source.hashes.printed import values_of
from include.source.hashes.sums import HashSum, bits_for, leaf_of

pytestmark = pytest.mark.unit

Rows = Mapping[str, str]
BITS = 5


def hashed(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def leaves(rows: Rows, bits: int = BITS) -> dict[int, HashSum]:
    found: dict[int, HashSum] = {}
    for key, value in rows.items():
        leaf = leaf_of(key.encode(), bits)
        found[leaf] = found.get(leaf, HashSum()).plus(HashSum.of(hashed(f"{key}={value}")))
    return found


def tree(rows: Rows, bits: int = BITS) -> Tree:
    return Tree.of(bits, [leaves(rows, bits)])


TEXT = ComparedColumn(Column("value", "varchar"), "text")
NUMBER = ComparedColumn(Column("n", "int"), "number")
some_rows = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sampled_from("xyz"), max_size=80)


@given(some_rows, some_rows)
def test_the_rows_of_differing_leaves_are_all_that_differ(left: Rows, right: Rows) -> None:
    found = set(tree(left).differing(tree(right)))
    wrong = {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}
    assert found == {leaf_of(key.encode(), BITS) for key in wrong}
    mine, other = (
        {key: f"1;{value}" for key, value in rows.items() if leaf_of(key.encode(), BITS) in found}
        for rows in (left, right)
    )

    def earlier(keys: Collection[str]) -> Mapping[str, set[str]]:
        return {key: {"1;x"} for key in keys}

    told = {each.key: each.kind for each in differences(mine, other, [TEXT], earlier)}
    assert told.keys() == wrong
    for key, kind in told.items():
        if key not in right:
            assert kind == "missing"
        elif key not in left:
            assert kind == "extra"
        else:
            assert kind == ("stale" if right[key] == "x" else "altered")


@given(some_rows, st.integers(0, BITS))
def test_each_level_sums_up_to_the_root_and_is_what_a_scan_by_it_gives(rows: Rows, bits: int) -> None:
    whole = tree(rows)
    assert whole.level(bits) == leaves(rows, bits)
    assert whole.root.rows == len(rows)
    total = HashSum()
    for each in whole.level(bits).values():
        total = total.plus(each)
    assert total == whole.root


@given(some_rows, some_rows)
def test_a_tree_follows_changes_without_a_scan(before: Rows, after: Rows) -> None:
    grown = dict(leaves(before))
    for key in before.keys() | after.keys():
        leaf = leaf_of(key.encode(), BITS)
        if key in before:
            grown[leaf] = grown.get(leaf, HashSum()).minus(HashSum.of(hashed(f"{key}={before[key]}")))
        if key in after:
            grown[leaf] = grown.get(leaf, HashSum()).plus(HashSum.of(hashed(f"{key}={after[key]}")))
    assert Tree.of(BITS, [grown]) == tree(after)


@given(some_rows)
def test_a_tree_of_ranges_is_that_of_the_table_and_survives_being_kept(rows: Rows) -> None:
    parts = [{key: value for key, value in rows.items() if (key < "c") is low} for low in (True, False)]
    found = Tree.of(BITS, map(leaves, parts))
    assert found == tree(rows)
    assert Tree.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_trees_of_other_leaves_are_not_compared() -> None:
    with pytest.raises(ValueError, match="5 and 4 bits"):
        tree({}).differing(tree({}, 4))


def test_leaves_are_enough_for_a_thousand_rows_each() -> None:
    assert [bits_for(rows) for rows in (0, 1, 500, 501, 1_000, 1_001)] == [0, 0, 0, 1, 1, 2]
    assert 10_000_000 >> bits_for(10_000_000) <= 500
    assert bits_for(10**15) == 32


COLUMNS = (
    Column("id", "int"),
    Column("a", "varchar"),
    Column("b", "varchar"),
    Column("d", "double"),
    Column("n", "bigint"),
)
ROWS = ComparedRows.of(
    COLUMNS, TableSchema("shop", "t", COLUMNS, ("id",)), Policy.declared("accept", {}, ["shop"]).of("shop", "t")
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x#", "b": "y"}, {"a": "x", "b": "#y"}),
        ({"a": None, "b": "y"}, {"a": "y", "b": None}),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}),
        ({"a": ""}, {"a": None}),
        ({"a": "N"}, {"a": None}),
        ({"a": "1;x", "b": ""}, {"a": "", "b": "1;x"}),
        ({"a": "x;1", "b": "y"}, {"a": "x", "b": "1;y"}),
        ({"d": 0.1}, {"d": 0.10000000000000002}),
        ({"n": 1}, {"n": 11}),
    ],
)
def test_what_classic_checksums_take_for_the_same_differs(one: dict[str, object], other: dict[str, object]) -> None:
    row = {"id": 1, "a": "a", "b": "b", "d": 1.0, "n": 1}
    assert plain.row_hash(ROWS, row | one) != plain.row_hash(ROWS, row | other)


def test_a_lost_bulk_update_does_not_cancel() -> None:
    """CRC32 with XOR cancels an even number of equal differences."""
    before, after = ({str(key): value for key in range(1_000)} for value in ("0", "1"))
    assert tree(before).root.rows == tree(after).root.rows
    assert len(tree(before).differing(tree(after))) == 1 << BITS


@given(st.lists(st.tuples(st.booleans(), st.none() | st.text(max_size=5)), min_size=1))
def test_values_are_read_back_from_a_text(values: list[tuple[bool, str | None]]) -> None:
    columns = [TEXT if text else NUMBER for text, _ in values]
    given_ = [value if text or value is None else str(len(value)) for text, value in values]
    parts = [
        "N" if value is None else f"{len(value.encode())};{value}" if text else value
        for (text, _), value in zip(values, given_, strict=True)
    ]
    assert values_of(columns, ";".join(parts)) == tuple(given_)


@pytest.mark.parametrize("text", ["3;ab", "3", "2;ab;"])
def test_a_text_that_is_cut_short_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a text"):
        values_of([TEXT], text)


X, Y = (ComparedColumn(Column(name, "int"), "number") for name in "xy")


def test_differences_come_in_the_order_of_keys_and_history_is_asked_for_once() -> None:
    asked: list[Collection[str]] = []

    def earlier(keys: Collection[str]) -> Mapping[str, set[str]]:
        asked.append(keys)
        return {"b": {"2;N"}}

    here = {"a": "1;N", "b": "2;N", "c": "3;N"}
    found = differences(here, {"b": "2;N", "c": "4;N", "d": "5;N"} | {"b": "N;2"}, [X, Y], earlier)
    assert found == [
        DifferingRow("missing", "a"),
        DifferingRow("altered", "b", ("x", "y")),
        DifferingRow("altered", "c", ("x",)),
        DifferingRow("extra", "d"),
    ]
    (stale,) = differences({"b": "3;N"}, {"b": "2;N"}, [X, Y], earlier)
    assert stale == DifferingRow("stale", "b", ("x",))
    asked.pop()
    assert asked == [["b", "c"]]
    assert all(one.key < other.key for one, other in pairwise(found))
    assert differences({"a": "1"}, {"a": "1"}, [X], earlier) == []
    assert len(asked) == 1
