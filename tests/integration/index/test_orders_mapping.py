"""The shop's own mapping on a real server: it takes what an order's document holds, and answers by its fields."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from demo.shop.truth import _body, _line
from include.index.bulk.request import document_line
from include.index.definition import index_named
from include.index.identity import DocumentIdentity
from include.index.mapping.declared import check, creation
from include.index.mapping.file import mapping_of
from include.index.server.elasticsearch import ElasticsearchIndex
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

SERVERS = (
    "KAFKA",
    "REGISTRY",
    "ELASTICSEARCH",
    "S3",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
    "MYSQL_HOST",
    "MYSQL_PORT",
    "MYSQL_USER",
    "MYSQL_PASSWORD",
)
MOMENT = dt.datetime(2026, 11, 2, 3, 4, 5, 6)


def body(**changes: Any) -> dict[str, Any]:
    """A document as `shop truth` prints it."""
    row = (
        7, 70, "completed", Decimal("25.10"), "EUR", MOMENT, MOMENT, 3, 4, "food",
        "app", None, None, "Long Street 1", "Town", "12345", "DE", 52.5, 13.4,
        "Ada", "ada.example", "flexible", 60, None,
    )  # fmt: skip
    lines = [
        _line(1, "Meat lover's pizza", None, "pizza", 3, Decimal("7.70")),
        _line(2, "Lemonade", "cold", "drinks", 1, Decimal("2.00")),
    ]
    return {**_body(row, lines), **changes}


class Orders:
    def __init__(self, index: ElasticsearchIndex, name: str) -> None:
        self.index, self.name = index, f"{name}-v1"
        deployment = Deployment.load(env={f"LYREBIRD_{one}": "1" for one in SERVERS})
        definition = index_named(deployment, "orders")
        self.mapping = mapping_of(deployment, definition)
        self.info = index.create(self.name, creation(name, definition, self.mapping))

    def write(self, document: dict[str, Any]) -> tuple[int, str]:
        metadata = json.dumps({"doc_id": "7", "deleted": False}).encode()
        line = document_line(0, DocumentIdentity("7", 1), "order", json.dumps(document).encode(), metadata)
        answer = self.index.bulk(self.name, line.data)
        assert answer.items is not None
        self.index.refresh(self.name)
        return answer.items[0].status, answer.items[0].type

    def count(self, query: dict[str, Any]) -> int:
        found: int = self.index.client.count(index=self.name, query=query).body["count"]
        return found


@pytest.fixture
def orders(elasticsearch_url: str, unique: str) -> Iterator[Orders]:
    index = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url))
    yield Orders(index, unique)
    index.client.indices.delete(index=f"{unique}-v1", ignore_unavailable=True)
    index.close()


def test_an_order_is_taken_and_kept_as_it_was_sent(orders: Orders) -> None:
    assert orders.write(body()) == (201, "")
    found = orders.index.get(orders.name, "7")
    assert found is not None
    assert found.source["order"] == body()
    assert check(orders.info, orders.info.name.removesuffix("-v1"), orders.mapping) == []


def test_a_field_that_nobody_declared_is_refused(orders: Orders) -> None:
    assert orders.write(body(commission="0.20")) == (400, "strict_dynamic_mapping_exception")


def test_orders_are_found_by_their_fields(orders: Orders) -> None:
    orders.write(body())
    three_pizzas = [{"match": {"order.lines.name": "pizza"}}, {"term": {"order.lines.quantity": 3}}]
    three_drinks = [{"match": {"order.lines.name": "lemonade"}}, {"term": {"order.lines.quantity": 3}}]
    nested = [
        {"nested": {"path": "order.lines", "query": {"bool": {"filter": of}}}} for of in (three_pizzas, three_drinks)
    ]
    assert [orders.count(query) for query in nested] == [1, 0]
    near = {"geo_distance": {"distance": "1km", "order.delivery_address.location": {"lat": 52.5, "lon": 13.401}}}
    assert orders.count(near) == 1
    assert orders.count({"range": {"order.total_price": {"gte": 25.1, "lt": 25.11}}}) == 1
    assert orders.count({"range": {"order.created_at": {"gt": "2026-11-02T03:04:05.000005Z"}}}) == 1
    assert orders.count({"range": {"order.created_at": {"gt": "2026-11-02T03:04:05.000006Z"}}}) == 0


ABROAD = {
    "delivery_address": {"street": "Calle Órbigo 1", "city": "Málaga", "postal_code": "29001", "country": "ES"},
    "partner": {"name": "Señor Pérez", "site": "HTTPS://Málaga.example/"},
}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("order.delivery_address.city", ("Málaga", "málaga", "Malaga", "MALAGA")),
        ("order.delivery_address.street", ("Órbigo", "orbigo", "ORBIGO")),
        ("order.partner.name", ("Pérez", "senor perez")),
        ("order.partner.site", ("HTTPS://Málaga.example/", "https://malaga.example/")),
    ],
)
def test_names_and_places_are_found_without_case_and_accents(
    orders: Orders, field: str, words: tuple[str, ...]
) -> None:
    orders.write(body(**ABROAD))
    assert [orders.count({"match": {field: {"query": each, "operator": "and"}}}) for each in words] == [1] * len(words)


def test_a_citys_exact_name_is_kept_for_lists_and_counts(orders: Orders) -> None:
    orders.write(body(**ABROAD))
    exact = "order.delivery_address.city.keyword"
    assert [orders.count({"term": {exact: each}}) for each in ("Málaga", "malaga")] == [1, 0]
    found = orders.index.client.search(index=orders.name, aggs={"n": {"terms": {"field": exact}}}, size=0)
    assert [each["key"] for each in found.body["aggregations"]["n"]["buckets"]] == ["Málaga"]


def test_words_without_a_fields_name_find_lines_and_places(orders: Orders) -> None:
    dish = {"line_no": 1, "name": "Crème brûlée", "description": "Très froide", "category": "dessert", "quantity": 1}
    orders.write(body(**ABROAD, lines=[{**dish, "price": "4.00"}]))
    for words in ("brulee", "creme AND brulee", "tres froide", "malaga", "perez", "calle orbigo"):
        assert orders.count({"query_string": {"query": words}}) == 1, words
    assert orders.count({"query_string": {"query": "pizza"}}) == 0
    found = orders.index.get(orders.name, "7")
    assert found is not None
    assert "lines_text" not in found.source["order"]


def test_prices_are_numbers_by_fields_and_a_hit_is_the_order_alone_where_that_is_asked(orders: Orders) -> None:
    orders.write(body())
    fields: list[Any] = ["order.total_price", "order.lines.price"]
    found = orders.index.client.search(index=orders.name, source_includes=["order"], fields=fields)
    (hit,) = found.body["hits"]["hits"]
    assert hit["_source"] == {"order": body()}
    assert hit["_source"]["order"]["total_price"] == "25.10"
    assert hit["fields"] == {"order.total_price": [25.1], "order.lines": [{"price": [7.7]}, {"price": [2.0]}]}


def test_a_runtime_field_without_a_script_makes_a_number_of_a_text(orders: Orders) -> None:
    orders.write(body())
    runtime = {"order.delivery_address.postal_code": {"type": "long"}}
    asked: dict[str, Any] = {
        "fields": ["order.delivery_address.postal_code"],
        "source": False,
        "runtime_mappings": runtime,
    }
    (hit,) = orders.index.client.search(index=orders.name, **asked).body["hits"]["hits"]
    assert hit["fields"] == {"order.delivery_address.postal_code": [12345]}
