"""The table of coercions beside a real server: every kind of value in every type of field, and the server's limits."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest

from include.errors import Terminal
from include.index.mapping.check import compare
from include.index.mapping.coercion import ValueEffect, effects_of
from include.index.mapping.limits import beyond_limits
from include.index.mapping.starter import starter_index
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType
from include.index.server.elasticsearch import ElasticsearchIndex, call
from include.settings.connections import Elasticsearch

# What `body` writes for each kind, edges first.
SENT: dict[Leaf, list[Any]] = {
    Leaf("boolean", "boolean"): [True, False],
    Leaf("int", "int"): [2**31 - 1, -(2**31), 16_777_217, 2049, 300, 0],
    Leaf("long", "long"): [2**63 - 1, -(2**63), 2**53 + 1, 2**31, 5],
    Leaf("float", "float"): [0.10000000149011612, 3.4028234663852886e38, 1e7, 5.5],
    Leaf("double", "double"): [0.1, 1.7976931348623157e308, 1e16, 5.9, 3e9],
    Leaf("decimal", "decimal(9,0)", 9, 0): ["999999999", "-5", "2026"],
    Leaf("decimal", "decimal(15,2)", 15, 2): ["9999999999999.99", "12.30", "-0.01"],
    Leaf("decimal", "decimal(20,0)", 20, 0): ["18446744073709551615", "9007199254740993", "5"],
    Leaf("text", "string"): ["free", "", "true", "5.9", "NaN", " 5", "2026", "x" * 32_767, "12.5,30"],
    Leaf("enum", "enum E"): ["PAID", "u09", "true"],
    Leaf("uuid", "uuid"): ["123e4567-e89b-12d3-a456-426614174000"],
    Leaf("bytes", "bytes"): ["AAEC", "YQ==", "1234"],
    Leaf("date", "date"): ["2026-11-02", "1950-05-05", "9999-12-31", "0001-01-01"],
    Leaf("time", "time-micros"): ["03:04:05.000006"],
    Leaf("timestamp_millis", "timestamp-millis"): ["2026-11-02T03:04:05.006000Z", "1950-05-05T00:00:00.000000"],
    Leaf("timestamp_micros", "timestamp-micros"): ["2026-11-02T03:04:05.000006Z", "9999-12-31T23:59:59.999999"],
}
TYPES = (
    "boolean", "byte", "short", "integer", "long", "half_float", "float", "double", "date", "date_nanos",
    "keyword", "text", "geo_point", "ip", "binary", "flattened",
)  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    **{kind: {"type": kind} for kind in TYPES},
    "object": {"properties": {"a": {"type": "integer"}}},
    "nested": {"type": "nested", "properties": {"a": {"type": "integer"}}},
    "exact": {"type": "integer", "coerce": False},
    "exact_double": {"type": "double", "coerce": False},
    "malformed": {"type": "integer", "ignore_malformed": True},
    "short_keyword": {"type": "keyword", "ignore_above": 8191},
    "tiny_keyword": {"type": "keyword", "ignore_above": 12},
    "millis": {"type": "date", "format": "epoch_millis"},
    "date_seconds": {"type": "date", "format": "epoch_second"},
    "date_days": {"type": "date", "format": "yyyy-MM-dd"},
    "date_or_seconds": {"type": "date", "format": "strict_date_optional_time||epoch_second"},
    "kept": {"type": "object", "enabled": False},
}
REFUSED = object()
UNSEEN = object()


class Server:
    def __init__(self, url: str, name: str) -> None:
        self.index = ElasticsearchIndex(Elasticsearch(url=url))
        self.name = name

    def create(self, mapping: dict[str, Any]) -> None:
        self.drop()
        call(lambda: self.index.client.indices.create(index=self.name, mappings=mapping))

    def drop(self) -> None:
        self.index.client.indices.delete(index=self.name, ignore_unavailable=True)

    def statuses(self, documents: list[dict[str, Any]]) -> list[int]:
        lines = (f'{{"index":{{"_id":"{n}"}}}}\n{json.dumps(each)}\n' for n, each in enumerate(documents))
        answer = self.index.bulk(self.name, "".join(lines).encode())
        assert answer.items is not None
        self.index.refresh(self.name)
        return [item.status for item in answer.items]


@pytest.fixture
def server(elasticsearch_url: str, unique: str) -> Iterator[Server]:
    found = Server(elasticsearch_url, f"{unique}-v1")
    yield found
    found.drop()
    found.index.close()


def seen(server: Server, rows: list[tuple[Leaf, str, Any]]) -> list[Any]:
    """What searches see of each value alone in its field: REFUSED, None for nothing, UNSEEN where nobody can tell."""
    statuses = server.statuses([{name: value} for _, name, value in rows])
    told = [name for name in FIELDS if name not in ("text", "object", "nested", "flattened", "kept", "binary")]
    fields: list[Any] = [
        {"field": name, "format": "strict_date_optional_time_nanos"} if name.startswith(("date", "millis")) else name
        for name in told
    ]
    hits = server.index.client.search(index=server.name, size=10_000, source=False, docvalue_fields=fields).body[
        "hits"
    ]["hits"]
    by_id = {int(hit["_id"]): hit.get("fields", {}) for hit in hits}
    out: list[Any] = []
    for n, (_, name, _) in enumerate(rows):
        if statuses[n] >= 300:
            out.append(REFUSED)
        else:
            out.append(by_id[n].get(name, [None])[0] if name in told else UNSEEN)
    return out


def as_sent(value: Any, found: Any, kind: str) -> bool:
    """Whether a search for the value finds it, and sums and sorting have it."""
    if found is UNSEEN or found == value:
        return True
    if found is None:
        return False
    if kind.startswith("date"):
        return micros(value) == micros(found)
    if kind == "keyword":
        return str(found) == (json.dumps(value) if not isinstance(value, str) else value)
    try:
        wanted, have = Decimal(value if isinstance(value, str) else repr(value)), Decimal(repr(found))
    except InvalidOperation:
        return False
    if kind == "float" and Decimal(repr(struct.unpack("f", struct.pack("f", found))[0])) == wanted:
        return True
    return have == wanted


def micros(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment.replace(tzinfo=moment.tzinfo or dt.UTC)


def test_every_kind_in_every_type_does_what_the_table_says(server: Server) -> None:
    server.create({"dynamic": "strict", "properties": FIELDS})
    rows = [(leaf, name, value) for leaf, values in SENT.items() for name in FIELDS for value in values]
    found = seen(server, rows)
    wrong = []
    harmless = {(leaf, name) for leaf, name, _ in rows if any(e.level != "limited" for e in effects(leaf, name))}
    for (leaf, name, value), each in zip(rows, found, strict=True):
        kind = FIELDS[name].get("type", "object")
        said = {effect.level for effect in effects(leaf, name)}
        refused, right = each is REFUSED, each is not REFUSED and as_sent(value, each, kind)
        if refused or not right:
            harmless.discard((leaf, name))
        told = any("refused" in effect.reason for effect in effects(leaf, name))
        hidden = any("hidden" in effect.reason for effect in effects(leaf, name))
        fits = (
            refused
            if "refused" in said
            else (refused and told) or (each is None and hidden) or (not refused and (right or "coerced" in said))
        )
        if not fits:
            wrong.append((leaf.said, name, str(value)[:40], each, sorted(said)))
    assert not wrong, "\n".join(map(str, wrong))
    # And each pair that is said to be lossy is: some value of that kind comes out otherwise.
    unproven = {(leaf.said, name) for leaf, name in harmless if name not in ("text", "binary")}
    assert unproven == set()


def effects(leaf: Leaf, name: str) -> tuple[ValueEffect, ...]:
    return effects_of(leaf, FIELDS[name])


INT = Leaf("int", "int")
POINT = RecordType({"lat": Leaf("double", "double"), "lon": Leaf("double", "double")})


@pytest.mark.parametrize(
    ("form", "field", "value", "taken"),
    [
        (RecordType({"a": INT}), "object", {"a": 1}, True),
        (RecordType({"a": INT}), "nested", {"a": 1}, True),
        (RecordType({"a": INT}), "integer", {"a": 1}, False),
        (RecordType({"a": INT}), "flattened", {"a": 1}, True),
        (RecordType({"a": INT}), "kept", {"a": 1}, True),
        (RecordType({"a": INT}), "geo_point", {"a": 1}, False),
        (POINT, "geo_point", {"lat": 1.5, "lon": 2.5}, True),
        (ListOf(RecordType({"a": INT})), "nested", [{"a": 1}, None], True),
        (ListOf(ListOf(RecordType({"a": INT}))), "nested", [[{"a": 1}]], True),
        (ListOf(RecordType({"a": INT})), "object", [{"a": 1}, {"a": 2}], True),
        (ListOf(INT), "nested", [1, 2], False),
        (ListOf(INT), "object", [1, 2], False),
        (ListOf(INT), "integer", [1, 2], True),
        (INT, "object", 1, False),
        (INT, "nested", 1, False),
    ],
)
def test_objects_and_lists_are_judged_as_the_server_does(
    server: Server, form: Form, field: str, value: Any, taken: bool
) -> None:
    mapping = {"dynamic": "strict", "properties": {field: FIELDS[field]}}
    server.create(mapping)
    assert server.statuses([{field: value}]) == [201 if taken else 400]
    refused = [each for each in compare(form, mapping, field) if each.verdict == "refused"]
    assert bool(refused) != taken


def test_edges_that_set_a_document_aside(server: Server) -> None:
    server.create({"dynamic": "strict", "properties": FIELDS})
    documents: list[dict[str, Any]] = [
        {"geo_point": {"lat": None, "lon": None}},
        {"geo_point": None},
        {"nested": [{"a": 1}] * 10_000},
        {"nested": [{"a": 1}] * 10_001},
        {"keyword": "x" * 32_766},
        {"keyword": "\u4e00" * 10_923},
        {"short_keyword": "\U0001f600" * 4095},
        {"short_keyword": "\u4e00" * 8191},
        {"short_keyword": "x" * 40_000},
    ]
    assert server.statuses(documents) == [400, 201, 201, 400, 201, 400, 201, 201, 201]
    ignored = server.index.client.count(index=server.name, query={"exists": {"field": "_ignored"}}).body["count"]
    assert ignored == 1


def fields(count: int, **more: Any) -> dict[str, Any]:
    return {"properties": {f"f{n}": {"type": "keyword"} for n in range(count)}, **more}


def deep(levels: int) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "keyword"}
    for _ in range(levels):
        field = {"properties": {"a": field}}
    return field


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (fields(1000), []),
        (fields(1001), ["1,001 fields, at most 1,000"]),
        ({"properties": {"o": fields(999)}}, []),
        ({"properties": {"o": fields(1000, type="nested")}}, ["1,001 fields, at most 1,000"]),
        ({"properties": {"t": {"type": "text", "fields": fields(999)["properties"]}}}, []),
        (
            {"properties": {"t": {"type": "text", "fields": fields(1000)["properties"]}}},
            ["1,001 fields, at most 1,000"],
        ),
        ({"properties": {f"n{n}": {"type": "nested"} for n in range(50)}}, []),
        ({"properties": {f"n{n}": {"type": "nested"} for n in range(51)}}, ["51 nested fields, at most 50"]),
        (deep(20), []),
        (deep(21), ["21 levels, at most 20"]),
    ],
)
def test_limits_are_counted_as_the_server_does(server: Server, mapping: dict[str, Any], told: list[str]) -> None:
    assert beyond_limits(mapping) == told
    if told:
        with pytest.raises(Terminal, match="exceeded"):
            server.create(mapping)
    else:
        server.create(mapping)


def test_names_of_a_map_are_typed_by_its_values_with_dots_and_all(server: Server) -> None:
    forms = RecordType({"counts": MapOf(Leaf("long", "long")), "notes": MapOf(Leaf("text", "string"))})
    mapping = starter_index({"order": forms}).mapping()
    server.create(mapping)
    bodies: list[dict[str, Any]] = [
        {"counts": {"a": 1}, "notes": {"day": "2026-11-02"}},
        {"counts": {"a.b": 2, "c": None}, "notes": {"day": "no day"}},
        {"counts": {"b": "no number"}},
        {"other": 1},
    ]
    assert server.statuses([{"order": body} for body in bodies]) == [201, 201, 400, 400]
    live = server.index.describe(server.name)
    assert live is not None
    found = live.mapping["properties"]["order"]["properties"]
    assert {name: field["type"] for name, field in found["counts"]["properties"].items()} == {
        "a": "long",
        "a.b": "long",
    }
    assert found["notes"]["properties"]["day"]["type"] == "text"
    assert [each.verdict for each in compare(forms, live.mapping, "order")] == ["limited"] * 3
