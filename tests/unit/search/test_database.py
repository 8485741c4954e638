"""What the database answers for a search, over tables in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from include.clock import ManualClock
from include.document.assembler import Assembler
from include.document.definition import Computed, DocumentDefinition
from include.document.tables import MemoryTables, Tables
from include.errors import BackPressure, InvalidRecord, SettingsError
from include.record.position import SourcePosition
from include.record.schema import Column
from include.search.database import DatabaseDocuments
from include.search.definition import Fresh, Target
from tests.unit.search.test_fresh import position

COLUMNS = {
    "orders": [
        Column(name, "bigint" if name.endswith("id") else "varchar", False, None, None, None)
        for name in ("id", "order_id", "user_id", "state", "created_at")
    ]
}
DOCUMENT = DocumentDefinition(
    application="a",
    source="shop",
    database="shop",
    entity="order",
    fact={"table": "orders", "key": ["order_id"], "newest_by": "id", "state": "state", "final": ["completed"]},
    fields={name: name for name in ("order_id", "user_id", "state", "created_at")},
)


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
    def __init__(self, target: Target, **fresh: float) -> None:
        search = target.search.model_copy(update={"fresh": Fresh(**{"connections": 1, **fresh})})
        self.clock = ManualClock()
        self.made: list[Positioned] = []
        self.rows: list[dict[str, object]] = []
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
def shop(target: Target) -> Shop:
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


def test_of_a_user_those_are_read_that_changed_last_and_the_others_are_named(target: Target) -> None:
    shop = Shop(target, recent=2)
    for order_id in (1, 2, 3, 1):
        shop.order(order_id)
    read = shop.documents.of_user("7")
    assert (set(read.documents), set(read.others)) == ({"1", "3"}, {"2"})


def test_an_order_that_passed_to_another_user_is_no_longer_this_ones(shop: Shop) -> None:
    shop.order(2, user=8)
    assert shop.documents.of_user(7).documents["2"] is None
    assert shop.documents.of_user(8).documents["2"] is not None


def test_reads_beyond_the_rate_are_refused_and_positions_are_no_reads(target: Target) -> None:
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


def test_a_search_without_documents_cannot_be_asked_of_the_database(target: Target) -> None:
    with pytest.raises(SettingsError, match="Add `documents:`"):
        DatabaseDocuments(dataclasses.replace(target, document=None), lambda: None, ManualClock())  # type: ignore[arg-type, return-value]


def test_a_column_that_was_altered_is_looked_at_again_once(target: Target) -> None:
    shop = Shop(target)
    shop.order(1)
    assert shop.documents.by_id("1").documents["1"] is not None
    shop.made[0].tables._columns = {"orders": [*COLUMNS["orders"][:-1], Column("created_at", "int")]}
    hit = shop.documents.by_id("1").documents["1"]
    assert hit is not None
    assert (hit.body["created_at"], shop.made[0].forgot) == ("2026", 1)


def test_a_document_whose_hook_fails_is_unfinished_and_not_gone(target: Target) -> None:
    broken = DOCUMENT.model_copy(update={"computed": {"odd": Computed(hook=f"{__name__}.fails", type="long")}})
    shop = Shop(target)
    shop.documents._assembler = Assembler(broken)
    shop.order(1)
    read = shop.documents.by_id("1")
    assert (dict(read.documents), read.unfinished) == ({}, frozenset({"1"}))


def fails(_: object) -> int:
    raise ValueError("never")
