"""What the database answers for a search, over tables in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.clock import ManualClock
from include.document.assembler import Assembler
from include.document.definition import ComputedField
from include.document.reading.tables import MemoryTables, Tables
from include.errors import BackPressure, InvalidRecord, SettingsError
from include.record.key import doc_id
from include.record.position import SourcePosition
from include.record.schema import Column
from include.search.database import DatabaseDocuments
from include.search.definition import FreshReads, SearchTarget
from tests.support.search.order_document import DOCUMENT
from tests.unit.search.test_fresh import position

COLUMNS = {
    "orders": [
        Column(name, "bigint" if name.endswith("id") else "varchar", False, None, None, None)
        for name in ("id", "order_id", "user_id", "state", "created_at")
    ]
}


class Positioned:
    """Tables in memory that say where they stand."""

    def __init__(self, tables: MemoryTables) -> None:
        self.tables = tables
        self.closed = False
        self.columns = tables.columns
        self.forgot = 0

    def forget(self) -> None:
        self.forgot += 1
        self.tables._columns = {"orders": [*COLUMNS["orders"][:-1], Column("created_at", "varchar")]}

    @contextmanager
    def moment(self) -> Iterator[tuple[Tables, SourcePosition | None]]:
        with self.tables.snapshot() as snapshot:
            yield snapshot, position(7)

    def newest(self) -> SourcePosition | None:
        return position(9)

    def close(self) -> None:
        self.closed = True


class Shop:
    def __init__(self, target: SearchTarget, **fresh: float) -> None:
        search = target.search.model_copy(update={"fresh": FreshReads.model_validate({"connections": 1, **fresh})})
        self.clock = ManualClock()
        self.made: list[Positioned] = []
        self.rows: list[dict[str, Any]] = []
        self.documents = DatabaseDocuments(
            dataclasses.replace(target, search=search, document=DOCUMENT), self._connect, self.clock
        )

    def order(self, order_id: int, user: int = 7, state: str = "completed") -> None:
        self.rows.append(
            {"id": len(self.rows) + 1, "order_id": order_id, "user_id": user, "state": state, "created_at": "2026"}
        )

    def _connect(self) -> Positioned:
        self.made.append(Positioned(MemoryTables({"orders": self.rows}, COLUMNS)))
        self.made[-1].tables.tables["orders"] = self.rows  # one table, however many rows come
        return self.made[-1]


@pytest.fixture
def shop(target: SearchTarget) -> Shop:
    found = Shop(target)
    for order_id in (1, 2, 3):
        found.order(order_id)
    return found


def test_one_document_is_read_with_the_position_that_it_holds(shop: Shop) -> None:
    read = shop.documents.by_id("2")
    hit = read.documents["2"]
    assert hit is not None
    assert (hit.version, hit.body["state"], read.position) == (None, "completed", position(7))
    assert shop.documents.position() == position(9)


def test_what_is_not_there_and_what_cannot_be_a_key_has_no_document(shop: Shop) -> None:
    assert dict(shop.documents.by_id("99").documents) == {"99": None}
    assert dict(shop.documents.by_id("seven").documents) == {"seven": None}
    assert not shop.documents.of_user("seven").documents


def test_the_id_of_a_long_key_is_not_taken_for_one_that_is_not_there(shop: Shop) -> None:
    with pytest.raises(InvalidRecord, match="long key"):
        shop.documents.by_id("sha256:" + "0" * 64)


def test_an_entity_without_a_final_row_is_unfinished_and_not_gone(shop: Shop) -> None:
    shop.order(4, state="pending")
    assert shop.documents.by_id("4").unfinished == {"4"}
    assert "4" not in shop.documents.by_id("4").documents
    assert shop.documents.of_user(7).unfinished == {"4"}


def test_of_a_user_those_are_read_that_changed_last_and_of_others_is_told_what_was_asked(target: SearchTarget) -> None:
    shop = Shop(target, recent=2)
    for order_id in (1, 2, 3, 1):
        shop.order(order_id)
    shop.order(4, user=8)
    read = shop.documents.of_user("7", ["1", "2", "4", "5", "none"])
    assert (set(read.documents), read.more, read.held) == ({"1", "3"}, True, {"2"})
    assert not shop.documents.of_user("8").more


def test_a_user_with_a_long_history_costs_about_what_is_read_of_it(target: SearchTarget) -> None:
    shop = Shop(target, recent=20)
    for order_id in range(20_000):
        shop.order(order_id)
    read = shop.documents.of_user(7, [str(order_id) for order_id in (5, 19_999, 77_777)])
    assert (len(read.documents), read.more, read.held) == (20, True, {"5"})
    # The newest keys, one beyond; the documents' own rows; those that were asked for.
    assert shop.made[0].tables.given == 21 + 20 + 1


def test_many_rows_of_a_few_entities_hide_no_other(target: SearchTarget) -> None:
    shop = Shop(target, recent=3)
    for order_id in (1, 2, 3):
        shop.order(order_id)
    for _ in range(500):
        shop.order(3)
    read = shop.documents.of_user(7)
    assert (set(read.documents), read.more) == ({"1", "2", "3"}, False)


def test_the_id_of_a_long_key_is_known_among_the_users_own(target: SearchTarget) -> None:
    long, other = "x" * 600, "y" * 600
    names = [name for name in COLUMNS["orders"] if name.name != "order_id"]
    rows = [
        {"id": n, "order_id": key, "user_id": user, "state": "completed", "created_at": "2026"}
        for n, (key, user) in enumerate([(long, 7), ("short", 7), ("a", 7), (other, 8)])
    ]
    shop = Shop(target, recent=1)
    tables = Positioned(MemoryTables({"orders": rows}, {"orders": [*names, Column("order_id", "varchar")]}))
    shop.documents._connect = lambda: tables
    hashes = [doc_id({"order_id": key}) for key in (long, other)]
    assert shop.documents.of_user(7, [*hashes, "short", "none"]).held == {hashes[0], "short"}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([7, 7, 7, 8]), st.sampled_from(["completed", "pending"]))),
    st.integers(1, 4),
    st.sets(st.integers(1, 8)),
)
def test_what_is_read_of_a_user_is_what_the_whole_history_says(
    target: SearchTarget, changes: list[tuple[int, int, str]], recent: int, asked: set[int]
) -> None:
    shop = Shop(target, recent=recent, reads_per_s=1000)
    for order_id, user, state in changes:
        shop.order(order_id, user, state)
    read = shop.documents.of_user(7, [str(order_id) for order_id in asked])
    newest = {row["order_id"]: row["id"] for row in shop.rows if row["user_id"] == 7}
    keys = sorted(newest, key=lambda key: newest[key], reverse=True)
    told = {str(key) for key in keys[:recent]}
    assert set(read.documents) | read.unfinished == told
    assert read.more == (len(keys) > recent)
    assert read.held == {str(key) for key in keys[recent:] if key in asked}
    for key in told - read.unfinished:
        latest = [row for row in shop.rows if str(row["order_id"]) == key and row["state"] == "completed"][-1]
        hit = read.documents[key]
        assert (hit.body["user_id"] if hit else None) == (7 if latest["user_id"] == 7 else None)


def test_an_order_that_passed_to_another_user_is_no_longer_this_ones(shop: Shop) -> None:
    shop.order(2, user=8)
    assert shop.documents.of_user(7).documents["2"] is None
    assert shop.documents.of_user(8).documents["2"] is not None


def test_reads_beyond_the_rate_are_refused_and_positions_are_no_reads(target: SearchTarget) -> None:
    shop = Shop(target, reads_per_s=2)
    shop.order(1)
    shop.documents.by_id("1")
    shop.documents.of_user(7)
    with pytest.raises(BackPressure, match="capped"):
        shop.documents.by_id("1")
    assert shop.documents.position() == position(9)
    shop.clock.advance(0.5)
    assert shop.documents.by_id("1").documents


def test_a_connection_serves_one_reader_after_the_other_and_is_closed_at_the_end(shop: Shop) -> None:
    for _ in range(3):
        shop.documents.by_id("1")
    assert len(shop.made) == 1
    shop.documents.close()
    assert shop.made[0].closed


def test_a_search_without_documents_cannot_be_asked_of_the_database(target: SearchTarget) -> None:
    with pytest.raises(SettingsError, match="Add `documents:`"):
        DatabaseDocuments(dataclasses.replace(target, document=None), lambda: None, ManualClock())  # type: ignore[arg-type, return-value]


def test_a_column_that_was_altered_is_looked_at_again_once(target: SearchTarget) -> None:
    shop = Shop(target)
    shop.order(1)
    assert shop.documents.by_id("1").documents["1"] is not None
    shop.made[0].tables._columns = {"orders": [*COLUMNS["orders"][:-1], Column("created_at", "int")]}
    hit = shop.documents.by_id("1").documents["1"]
    assert hit is not None
    assert (hit.body["created_at"], shop.made[0].forgot) == ("2026", 1)


def test_a_document_whose_hook_fails_is_unfinished_and_not_gone(target: SearchTarget) -> None:
    broken = DOCUMENT.model_copy(update={"computed": {"odd": ComputedField(hook=f"{__name__}.fails", type="long")}})
    shop = Shop(target)
    shop.documents._assembler = Assembler(broken)
    shop.order(1)
    read = shop.documents.by_id("1")
    assert (dict(read.documents), read.unfinished) == ({}, frozenset({"1"}))


def fails(_: object) -> int:
    raise ValueError("never")
