"""A live index grows with its topic's schema on a real server, from several tasks at once, ahead of the documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from include.errors import Terminal
from include.index.mapping.check import compare
from include.index.mapping.evolution import Evolver
from include.index.mapping.starter import starter_index
from include.index.mapping.topic_types import body_form
from include.index.mapping.value_types import Leaf, ListOf, MapOf, RecordType
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.index.server.unindexed_values import ignored_values
from include.settings.connections import Elasticsearch

LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}


def newer(*fields: tuple[str, Any], lines: Mapping[str, Any] = LINE) -> dict[str, Any]:
    first, _, counts = FIRST["fields"]
    more = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    own = {"name": "lines", "type": {"type": "array", "items": dict(lines)}}
    return {**FIRST, "fields": [first, own, counts, *more]}


class Live:
    def __init__(self, url: str, name: str) -> None:
        settings = Elasticsearch(url=url)
        self.index = ElasticsearchIndex(settings)
        self.admin = ElasticsearchAdmin(settings, self.index.client)
        self.name = name
        self.declared = starter_index({"order": body_form(FIRST, "AVRO", "plain")}).mapping()
        self.index.create(name, {"mappings": self.declared})

    def evolver(self) -> Evolver:
        return Evolver(
            self.index.describe,
            self.admin.put_mapping,
            self.name,
            entity="order",
            value="plain",
            declared=self.declared,
        )

    def status(self, body: dict[str, Any]) -> int:
        lines = f'{{"index":{{}}}}\n{json.dumps({"order": body})}\n'
        answer = self.index.bulk(self.name, lines.encode())
        assert answer.items is not None
        return answer.items[0].status

    def mapping(self) -> Mapping[str, Any]:
        info = self.index.describe(self.name)
        assert info is not None
        return info.mapping


@pytest.fixture
def live(elasticsearch_url: str, unique: str) -> Iterator[Live]:
    found = Live(elasticsearch_url, f"{unique}-v1")
    yield found
    found.admin.delete(found.name)
    found.index.close()


def test_a_new_column_is_in_the_mapping_before_the_first_document_that_has_it(live: Live) -> None:
    gift = {**LINE, "fields": [*LINE["fields"], {"name": "gift", "type": ["null", "boolean"], "default": None}]}
    schema = newer(("note", "string"), ("notes", {"type": "map", "values": "string"}), lines=gift)
    body = {"id": 1, "lines": [{"n": 1, "gift": True}], "counts": {"a": 1}, "note": "x", "notes": {"a.b": "2026-11-02"}}
    assert live.status(body) == 400
    assert live.evolver()(7, schema, "AVRO") == ("order.lines.gift", "order.note", "order.notes")
    assert live.status(body) == 201
    found = compare(body_form(schema, "AVRO", "plain"), live.mapping(), "order")
    assert {each.verdict for each in found} == {"limited"}
    assert live.mapping()["properties"]["order"]["properties"]["notes"]["properties"]["a.b"]["type"] == "text"


def test_tasks_that_meet_newer_schemas_at_once_leave_one_mapping_for_all(live: Live) -> None:
    schemas = [newer(("note", "string"), (f"own_{n}", "long")) for n in range(4)] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: live.evolver()(each[0], each[1], "AVRO"), enumerate(schemas)))
    fields = live.mapping()["properties"]["order"]["properties"]
    assert sorted(fields) == ["counts", "id", "lines", "note", "own_0", "own_1", "own_2", "own_3"]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({**FIRST, "fields": [{"name": "id", "type": "boolean"}]}, "order.id: boolean into long"),
        ({**FIRST, "fields": [{"name": "lines", "type": "string"}]}, "order.lines: string into nested"),
        (newer(*((f"f{n}", "long") for n in range(1000))), r"Limit of total fields \[1000\]"),
    ],
)
def test_what_does_not_fit_stops_with_the_field_and_changes_nothing(live: Live, schema: Any, told: str) -> None:
    before = live.mapping()
    with pytest.raises(Terminal, match=told):
        live.evolver()(7, schema, "AVRO")
    assert live.mapping() == before


def test_values_that_no_search_finds_are_counted_by_field(live: Live) -> None:
    text, number = Leaf("text", "string"), Leaf("int", "int")
    form = RecordType({"note": text, "lines": ListOf(RecordType({"n": number, "tag": text})), "tags": MapOf(text)})
    mapping = starter_index({"order": form}).mapping()
    mapping["properties"]["order"]["properties"]["lines"]["properties"]["n"]["ignore_malformed"] = True
    live.admin.delete(live.name)
    live.index.create(live.name, {"mappings": mapping})
    long = "x" * 9000
    assert ignored_values(live.index.client, live.name) == {}
    for body in ({"note": long}, {"note": long, "lines": [{"n": "no"}, {"tag": long}]}, {"tags": {"a": "short"}}):
        assert live.status(body) == 201
    live.index.refresh(live.name)
    assert ignored_values(live.index.client, live.name) == {
        "order.note.keyword": 2,
        "order.lines.n": 1,
        "order.lines.tag.keyword": 1,
    }
    with pytest.raises(Terminal, match="index does not exist"):
        ignored_values(live.index.client, "nowhere")
