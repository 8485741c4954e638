"""A dark launch of joined rows on real servers: documents of a shop beside the rows that SQL makes of its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import orjson
import pymysql
import pytest

from include.clock import ManualClock, SystemClock
from include.errors import Terminal
from include.index.bulk.request import document_line
from include.index.definition import index_named
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.mapping.file import mapping_of
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.record.json.body import body_json
from include.record.key import doc_id
from include.record.position import SourcePosition
from include.search.dark_rows import sides
from include.search.dark_rows.definition import DarkRows, IndexSide, declared_dark_rows
from include.search.dark_rows.launch import compare_rows
from include.search.dark_rows.report import DarkRowsReport
from include.search.engine import ElasticsearchEngine
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.search.shop_search import ShopSearch
from tests.support.shipped_environment import ENV

# What the shipped files of joins say, in SQL.
JOINED = """
SELECT o.id AS order_row_id, o.order_id, o.state, o.user_id, o.business_id, o.currency, o.created_at,
       l.id AS line_id, l.line_no, l.name, l.category, l.quantity, l.price,
       p.id AS payment_id, p.attempt, p.method, p.status AS payment_status, p.amount,
       o.partner_id, s.name AS partner_name, s.site AS partner_site,
       o.address_id, a.city, a.postal_code, a.country
FROM orders o
JOIN order_lines l ON l.order_row_id = o.id
LEFT JOIN payments p ON p.order_id = o.order_id
JOIN partners s ON s.id = o.partner_id
JOIN addresses a ON a.id = o.address_id
WHERE o.state IN ('completed', 'cancelled')
"""
KEY = ("order_row_id", "line_id", "payment_id", "partner_id", "address_id")


class Rows:
    """The second index, beside the one of `world`."""

    def __init__(self, world: ShopSearch) -> None:
        deployment = Deployment.load(PROJECT_ROOT / "include" / "deployment", ENV)
        definition = index_named(deployment, "order_lines")
        self.world, self.alias = world, f"{world.target.search.index}-rows"
        self.name = f"{self.alias}-v1"
        info = world.index.create(self.name, creation(self.alias, definition, mapping_of(deployment, definition)))
        self.keeper = ProgressKeeper(world.index, info, "shop.order_lines", "test", ManualClock())
        self.progress: IndexProgress = self.keeper.claim()
        shipped = declared_dark_rows(deployment)["order_lines"]
        self.entry: DarkRows = dataclasses.replace(
            shipped,
            documents=IndexSide(world.target.search.index, world.target.topic, "order"),
            rows=IndexSide(self.alias, "shop.order_lines", "order_line"),
        )
        self.version = 0

    def joined(self) -> list[dict[str, Any]]:
        connection = self.world.shop.connect()
        try:
            with connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(JOINED)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def put(self, rows: list[dict[str, Any]], at: SourcePosition, *, living: bool = True) -> None:
        lines = b""
        for row in rows:
            self.version += 1
            key = doc_id({name: row[name] for name in KEY})
            metadata = orjson.dumps({"doc_id": key, "version": self.version, "deleted": not living})
            body = body_json(row) if living else None
            lines += document_line(0, DocumentIdentity(key, self.version), "order_line", body, metadata).data
        answer = self.world.index.bulk(self.name, lines)
        assert answer.items is not None
        assert {item.status for item in answer.items} <= {200, 201}
        self.world.index.refresh(self.name)
        self.progress = dataclasses.replace(self.progress, complete=at, visible=at)
        self.keeper.save(self.progress)

    def compared(self, deadline_s: float = 5.0) -> DarkRowsReport:
        clock, tables = SystemClock(), self.world.tables()
        try:
            engine = ElasticsearchEngine(self.world.index.client)
            both = sides.IndexedSides(self.entry, self.world.index, engine, tables, clock)
            return compare_rows("order_lines", both, self.entry.rules, clock, deadline_s)
        finally:
            tables.close()


@pytest.fixture
def rows(world: ShopSearch, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rows]:
    # So that each side has several pages.
    monkeypatch.setattr(sides, "_PAGE", 7)
    monkeypatch.setattr(sides, "_ROWS", 11)
    world.index_all()
    made = Rows(world)
    made.put(made.joined(), world.position())
    yield made
    world.index.client.indices.delete(index=made.name, ignore_unavailable=True)


def test_documents_and_what_sql_makes_of_the_same_tables_say_the_same(rows: Rows) -> None:
    report = rows.compared()
    documents = rows.world.told()
    assert report.examples == []
    assert report.good
    assert (report.documents, report.outcomes["equal"]) == (len(documents), len(documents))
    assert report.items == sum(len(body["lines"]) for body in documents.values())
    own = {body["order_row_id"] for body in documents.values()}
    joined = rows.joined()
    assert report.rows == sum(row["order_row_id"] in own for row in joined)
    assert any(row["order_row_id"] not in own for row in joined), "no order has an older final row"
    assert report.rows > report.items, "no order was paid in several attempts"


def test_each_planted_difference_is_named_by_order_row_line_and_field(rows: Rows) -> None:
    documents = sorted(rows.world.told().values(), key=lambda body: body["order_row_id"])
    lost, wrong, more = (body["order_row_id"] for body in documents[:3])
    joined, at = rows.joined(), rows.world.position()
    rows.put([row for row in joined if row["order_row_id"] == lost], at, living=False)
    changed = [row for row in joined if row["order_row_id"] == wrong and row["line_no"] == 1]
    rows.put([{**row, "price": row["price"] + Decimal("0.01")} for row in changed], at)
    (first, *_) = [row for row in joined if row["order_row_id"] == more]
    rows.put([{**first, "line_id": 10**9, "line_no": 99}], at)
    report = rows.compared()
    assert report.outcomes["differs"] == 3
    assert report.found == {"missing": len(documents[0]["lines"]), "field lines.price": 1, "extra": 1}
    by_kind = {each.kind: each for each in report.examples}
    assert (by_kind["field"].of, by_kind["field"].item) == (str(wrong), "1")
    assert by_kind["field"].document == documents[1]["lines"][0]["price"]
    assert (by_kind["extra"].of, by_kind["extra"].item) == (str(more), "99")
    assert {each.of for each in report.examples if each.kind == "missing"} == {str(lost)}


def test_an_index_that_is_behind_the_database_decides_nothing(rows: Rows) -> None:
    own = next(iter(rows.world.told().values()))["order_row_id"]
    rows.put([row for row in rows.joined() if row["order_row_id"] == own], rows.world.position(), living=False)
    with rows.world.shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE partners SET legal_name = CONCAT(legal_name, 'x') LIMIT 1")
        connection.commit()
    report = rows.compared(deadline_s=1.0)
    assert report.outcomes["undecided"] == 1
    assert not report.good
    assert not report.differs


def test_an_index_that_is_not_there_is_told_of_with_what_to_do(rows: Rows) -> None:
    rows.entry = dataclasses.replace(rows.entry, rows=IndexSide("nowhere", "shop.order_lines", "order_line"))
    with pytest.raises(Terminal, match="lyrebird index create nowhere"):
        rows.compared()
