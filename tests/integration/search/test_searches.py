"""Searches on a real server: lists, full text over lines, rankings, places, pages."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from include.clock import ManualClock, iso
from include.errors import Terminal, Transient
from include.index.bulk.request import document_line
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import creation
from include.index.progress.document import ensure_notes
from include.index.server.elasticsearch import ElasticsearchIndex
from include.search.client import IndexSearch
from include.search.engine import ElasticsearchEngine
from include.search.queries import Box, Circle, Filters, Pieces
from include.settings.connections import Elasticsearch
from tests.support.search.shipped_search import shipped_target

MINUTE_US = 60_000_000
MENU = ("Meat-lover's pizza", "Green salad", "Ramen 🍜", "Crème brûlée")
CATEGORY = ("Mains", "Starters", "Mains", "Desserts")


def order(number: int) -> dict[str, Any]:
    """Four users; two orders in each minute, so that ids decide; the n-th has n % 4 + 1 pieces of two dishes."""
    lines = [
        {
            "line_no": n + 1,
            "name": MENU[(number + n) % 4],
            "description": None if n else "as always",
            "category": CATEGORY[(number + n) % 4],
            "quantity": (number + n) % 4 + 1,
            "price": "7.70",
        }
        for n in range(2)
    ]
    return {
        "order_id": number,
        "state": "cancelled" if number % 10 == 0 else "completed",
        "created_at": iso(number // 2 * MINUTE_US + 1),
        "user_id": number % 4,
        "business_id": number % 2,
        "delivery_address": {"city": "Town", "location": {"lat": 52.5 + number / 1000, "lon": 13.4}},
        "lines": lines,
    }


ORDERS = {number: order(number) for number in range(1, 41)}


def newest_first(bodies: dict[int, dict[str, Any]]) -> list[str]:
    ranked = sorted(bodies.items(), key=lambda item: (item[1]["created_at"], str(item[0])), reverse=True)
    return [str(number) for number, _ in ranked]


@pytest.fixture(scope="module")
def search(elasticsearch_url: str) -> Iterator[IndexSearch]:
    alias = f"t{uuid.uuid4().hex[:10]}"
    shipped = shipped_target()
    target = dataclasses.replace(shipped, search=shipped.search.model_copy(update={"index": alias}))
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    ensure_notes(index)
    # Three shards: rankings and lists are made of several answers.
    definition = target.index.model_copy(update={"shards": 3})
    index.create(f"{alias}-v1", creation(alias, definition, target.mapping))
    lines = b""
    for number, body in ORDERS.items():
        metadata = json.dumps({"doc_id": str(number), "version": number, "deleted": False}).encode()
        identity = DocumentIdentity(str(number), number)
        lines += document_line(0, identity, "order", json.dumps(body).encode(), metadata).data
    gone = json.dumps({"doc_id": "99", "version": 99, "deleted": True}).encode()
    lines += document_line(0, DocumentIdentity("99", 99), "order", None, gone).data
    answer = index.bulk(f"{alias}-v1", lines)
    assert answer.items is not None
    assert {item.status for item in answer.items} == {201}
    index.refresh(f"{alias}-v1")
    yield IndexSearch(target, index, ElasticsearchEngine(index.client), ManualClock())
    index.client.indices.delete(index=f"{alias}-v1")
    index.close()


def ids(page: Any) -> list[str]:
    return [hit.doc_id for hit in page.hits]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_walking_a_users_pages_meets_each_order_once_newest_first(search: IndexSearch, size: int) -> None:
    found, after = [], None
    while True:
        page = search.of_user(3, size, after)
        found += ids(page)
        after = page.next
        if after is None:
            break
    assert found == newest_first({n: body for n, body in ORDERS.items() if body["user_id"] == 3})


def test_one_order_is_read_by_its_id_and_a_deleted_one_is_not_there(search: IndexSearch) -> None:
    hit, seen = search.one("7")
    assert hit is not None
    assert (hit.version, hit.body) == (7, ORDERS[7])
    assert (seen.origin, seen.position) == ("index", None)
    assert search.one("99")[0] is None
    assert search.one("1000")[0] is None


def test_words_and_quantity_are_of_the_same_line(search: IndexSearch) -> None:
    found = search.text("meat-lover's pizzas", Pieces(3, 3), size=100)
    expected = {
        n: body
        for n, body in ORDERS.items()
        if any(line["name"] == MENU[0] and line["quantity"] == 3 for line in body["lines"])
    }
    assert ids(found) == newest_first(expected)
    for quantity in (1, 2, 3, 4):
        bodies = {
            n: b
            for n, b in ORDERS.items()
            if any((x["name"], x["quantity"]) == (MENU[0], quantity) for x in b["lines"])
        }
        page = search.text("pizza", Pieces(quantity, quantity), size=100)
        assert ids(page) == newest_first(bodies)
        assert all(line["name"] == MENU[0] for hit in page.hits for line in hit.lines)


@pytest.mark.parametrize("words", ["brûlée", "brulee", "BRULEE"])
def test_text_is_found_with_filters_and_without_case_and_accents(search: IndexSearch, words: str) -> None:
    page = search.text(words, filters=Filters(user=2, equal={"state": "completed"}), size=100)
    expected = {
        n: b
        for n, b in ORDERS.items()
        if b["user_id"] == 2 and b["state"] == "completed" and any(x["name"] == MENU[3] for x in b["lines"])
    }
    assert ids(page) == newest_first(expected)


def test_dishes_of_one_business_are_ranked_by_their_lines_with_orders_and_pieces_beside(search: IndexSearch) -> None:
    found = search.popular("item", Filters(business=1))
    expected: dict[str, list[int]] = {}
    for body in ORDERS.values():
        for line in body["lines"] if body["business_id"] == 1 else ():
            expected.setdefault(line["name"], []).append(line["quantity"])
    assert {row.name: (row.lines, row.pieces) for row in found.rows} == {
        name: (len(quantities), sum(quantities)) for name, quantities in expected.items()
    }
    assert [row.lines for row in found.rows] == sorted((row.lines for row in found.rows), reverse=True)
    assert (found.error, found.others) == (0, 0)
    assert len(search.popular("item", Filters(business=1), size=1).rows) == 1


def test_categories_count_lines_and_the_orders_that_they_belong_to(search: IndexSearch) -> None:
    rows = {row.name: (row.lines, row.documents) for row in search.popular("category").rows}
    lines = [line["category"] for body in ORDERS.values() for line in body["lines"]]
    orders = [{line["category"] for line in body["lines"]} for body in ORDERS.values()]
    assert rows == {name: (lines.count(name), sum(name in one for one in orders)) for name in set(lines)}
    mains = search.popular("item", category="Mains")
    assert {row.name for row in mains.rows} == {MENU[0], MENU[2]}


def test_the_nearest_come_first_with_their_distance_page_by_page(search: IndexSearch) -> None:
    circle = Circle(52.5, 13.4, 1_000)
    found, after = [], None
    while True:
        page = search.near(circle, size=3, after=after)
        found += list(page.hits)
        after = page.next
        if after is None:
            break
    # 0.001 degrees of latitude are 111.2 m.
    assert [hit.doc_id for hit in found] == [str(n) for n in range(1, 9)]
    assert [round(hit.distance_m or 0, -1) for hit in found][:2] == [110.0, 220.0]


def test_a_box_takes_what_lies_inside(search: IndexSearch) -> None:
    page = search.listed(Filters(box=Box(52.5105, 13.3, 52.5045, 13.5)), size=100)
    assert ids(page) == newest_first({n: ORDERS[n] for n in range(5, 11)})
    inside = search.popular("category", Filters(box=Box(52.5105, 13.3, 52.5045, 13.5)))
    assert sum(row.lines for row in inside.rows) == 12


def test_a_dropped_index_is_looked_up_again_and_a_missing_one_is_an_error(search: IndexSearch) -> None:
    lost = IndexSearch(
        dataclasses.replace(search.target, search=search.target.search.model_copy(update={"index": "none-at-all"})),
        search._index,
        search._engine,
        ManualClock(),
    )
    with pytest.raises(Terminal, match="lyrebird index create none-at-all"):
        lost.of_user(1)


def test_a_server_that_is_away_is_transient() -> None:
    index = ElasticsearchIndex(Elasticsearch(url="http://127.0.0.1:1"))
    with pytest.raises(Transient, match="does not answer"):
        ElasticsearchEngine(index.client).search("x", {"size": 0})
    index.close()
