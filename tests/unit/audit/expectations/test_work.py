"""What tasks make of records: ids and versions, then documents in typed columns, without Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from include.audit.expectations.columns import AvroValueReader, Body, body_of
from include.audit.expectations.work import UNREADABLE, decoded, identified
from include.errors import InvalidRecord
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.states import States
from include.log.memory import MemoryRegistry
from include.record.codec import Encoder, frame
from include.record.extent import DEEPEST
from include.record.version import to_header
from tests.support.record.random_avro import HOSTILE, ladder, long, wire

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2}
ROW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": ["null", MONEY], "default": None},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
NARROW = {**ROW, "fields": ROW["fields"][:1]}
CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Order"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def feed(floor: int = 0) -> Feed:
    return Feed(TopicOrigin("c", "t", "docs", 1), IndexTopic(entity="order"), floor=floor)


def row(key: bytes | None, value: bytes | None, version: int | None = 1, offset: int = 0) -> dict[str, Any]:
    headers = () if version is None else [dict(zip(("key", "value"), to_header(version), strict=True))]
    return {"partition": 0, "offset": offset, "key": key, "value": value, "headers": headers}


def batches(rows: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    yield pa.RecordBatch.from_pylist(list(rows))


def table(body: Body, registry: MemoryRegistry, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    schema = pa.schema([("doc_id", pa.string()), (UNREADABLE, pa.int64()), *((f.name, f.type) for f in body.fields)])
    (batch,) = decoded(body, schema, lambda: registry, batches(rows))
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def test_records_have_the_ids_and_versions_that_the_indexer_gives_them(registry: MemoryRegistry) -> None:
    key = Encoder(registry.register("docs-key", KEY), KEY)
    value = Encoder(registry.register("docs-value", NARROW), NARROW)
    rows = [
        row(key({"id": 5}), value({"id": 5}), version=7, offset=3),
        row(key({"id": 6}), None, version=8),
        row(key({"id": 7}), value({"id": 7}), version=None),
        row(b"\x01", value({"id": 8})),
        row(key({"id": 9}), b"\x01rubbish", version=9),
        row(key({"id": 1}), value({"id": 1}), version=2),
    ]
    (batch,) = identified(States(feed(floor=3), registry), batches(rows))
    found = [tuple(each.values())[:4] for each in batch.to_pylist()]
    assert found == [
        ("5", 7, 3, value.schema_id),
        ("6", 8, 0, None),
        (None, None, None, None),
        (None, None, None, None),
        ("9", 9, 0, None),
    ]


def test_documents_stand_in_typed_columns_whatever_schema_they_were_written_with(registry: MemoryRegistry) -> None:
    old = Encoder(registry.register("docs-value", NARROW), NARROW)
    new = Encoder(registry.register("docs-value", ROW), ROW)
    at = dt.datetime(2026, 11, 2, 3, 4, 5, tzinfo=dt.UTC)
    rows: list[dict[str, Any]] = [
        {"doc_id": "1", "records": 1, "value": old({"id": 1})},
        {"doc_id": "2", "records": 2, "value": new({"id": 2, "total": Decimal("1.50"), "at": at, "tags": ["a"]})},
        {"doc_id": "3", "records": 4, "value": b"\x01rubbish"},
        {"doc_id": None, "records": 5, "value": None},
    ]
    assert table(body_of(ROW, "plain"), registry, rows) == [
        {"doc_id": "1", UNREADABLE: 0, "id": 1, "total": None, "at": None, "tags": []},
        {"doc_id": "2", UNREADABLE: 0, "id": 2, "total": Decimal("1.50"), "at": at, "tags": ["a"]},
        {"doc_id": None, UNREADABLE: 1, "id": None, "total": None, "at": None, "tags": None},
        {"doc_id": None, UNREADABLE: 5, "id": None, "total": None, "at": None, "tags": None},
    ]


def test_a_document_that_does_not_fit_the_newest_schema_is_counted_alone(registry: MemoryRegistry) -> None:
    texts = {**NARROW, "name": "Other", "fields": [{"name": "id", "type": "string"}]}
    other = Encoder(registry.register("other-value", texts), texts)
    value = Encoder(registry.register("docs-value", NARROW), NARROW)
    rows = [
        {"doc_id": "1", "records": 1, "value": value({"id": 1})},
        {"doc_id": "2", "records": 1, "value": other({"id": "two"})},
    ]
    found = table(body_of(NARROW, "plain"), registry, rows)
    assert [(each["doc_id"], each[UNREADABLE]) for each in found] == [("1", 0), (None, 1)]


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_hostile_schemas_have_no_columns_and_no_reader(schema: Any) -> None:
    for each in (schema, ladder(DEEPEST - 2)):
        with pytest.raises(InvalidRecord, match=r"so deep|too (deep|many types)"):
            body_of(each, "plain")
    read = AvroValueReader(body_of(NARROW, "plain"), lambda _: schema)
    with pytest.raises(InvalidRecord, match=r"too (deep|many types)"):
        read(wire(7, bytes(10_000)))


def test_a_billion_values_without_bytes_are_no_document(registry: MemoryRegistry) -> None:
    schema = {**ROW, "fields": [*NARROW["fields"], {"name": "n", "type": {"type": "array", "items": "null"}}]}
    schema_id = registry.register("docs-value", schema)
    rows = [
        {"doc_id": "1", "records": 1, "value": wire(schema_id, long(1) + long(10**9) + long(0))},
        {"doc_id": "2", "records": 1, "value": wire(schema_id, long(2) + long(3) + long(0))},
    ]
    found = table(body_of(NARROW, "plain"), registry, rows)
    assert [(each["doc_id"], each[UNREADABLE], each["id"]) for each in found] == [(None, 1, None), ("2", 0, 2)]


def test_the_newer_image_of_a_change_is_the_document_and_a_delete_is_none(registry: MemoryRegistry) -> None:
    value = Encoder(registry.register("docs-value", CHANGE), CHANGE)
    image = {"id": 1, "total": Decimal("2.00"), "at": None, "tags": []}
    rows = [
        {"doc_id": "1", "records": 1, "value": value({"before": None, "after": image, "op": "c"})},
        {"doc_id": "2", "records": 2, "value": value({"before": image, "after": None, "op": "d"})},
        {"doc_id": "3", "records": 1, "value": value({"before": image, "after": None, "op": "u"})},
    ]
    found = table(body_of(CHANGE, "change"), registry, rows)
    assert [(each["doc_id"], each[UNREADABLE], each["total"]) for each in found] == [
        ("1", 0, Decimal("2.00")),
        (None, 1, None),
    ]


SHAPE = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "state": {"enum": ["a", "b"]},
        "at": {"type": "string", "format": "date-time"},
        "to": {"type": "object", "properties": {"city": {"type": "string"}, "free": {}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "either": {"type": ["string", "integer"]},
    },
}


def test_json_stands_in_the_columns_that_its_schema_says_and_what_does_not_fit_is_counted(
    registry: MemoryRegistry,
) -> None:
    schema_id = registry.register("docs-value", SHAPE, language="JSON")
    whole = {
        "id": 2.0,
        "price": 3,
        "paid": True,
        "state": "a",
        "at": "2026-11-02T03:04:05Z",
        "to": {"city": "Bern", "free": {"b": 1, "a": [None]}, "more": 1},
        "lines": [{"n": 1}, None, {"n": None}],
        "counts": {"x": 1, "y": None},
        "either": 7,
    }
    wrong = [
        {"id": "1"},
        {"id": 1.5},
        {"id": True},
        {"paid": 1},
        {"lines": {}},
        {"to": []},
        {"counts": {"x": "1"}},
        {"id": 1 << 63},
        [1],
        None,
    ]
    texts = [json.dumps(each).encode() for each in (whole, {"either": "seven", "to": {"free": "x"}}, *wrong)]
    rows = [
        {"doc_id": str(n), "records": 1, "value": frame(schema_id, text)}
        for n, text in enumerate([*texts, b"{rubbish"])
    ]
    first, second, *rest = table(body_of(SHAPE, "plain", "JSON"), registry, rows)
    assert first == {
        "doc_id": "0",
        UNREADABLE: 0,
        **whole,
        "id": 2,
        "price": 3.0,
        "to": {"city": "Bern", "free": '{"a":[null],"b":1}'},
        "counts": [("x", 1), ("y", None)],
        "either": "7",
    }
    assert (second["either"], second["to"], second["id"]) == ("seven", {"city": None, "free": "x"}, None)
    assert [(each["doc_id"], each[UNREADABLE]) for each in rest] == [(None, 1)] * 11


def test_changes_in_json_have_the_columns_of_their_newer_image(registry: MemoryRegistry) -> None:
    image = {"type": "object", "properties": {"id": {"type": "integer"}}}
    fields = {"before": image, "after": {"oneOf": [{"type": "null"}, image]}, "op": {"type": "string"}}
    schema = {"type": "object", "properties": {**fields, "source": {"type": "object"}}}
    schema_id = registry.register("docs-value", schema, language="JSON")
    texts = ['{"op":"u","after":{"id":4}}', '{"op":"d","after":null}', '{"op":"u"}']
    rows = [{"doc_id": str(n), "records": 1, "value": frame(schema_id, t.encode())} for n, t in enumerate(texts)]
    found = table(body_of(schema, "change", "JSON"), registry, rows)
    assert [(each["doc_id"], each["id"]) for each in found] == [("0", 4), (None, None)]


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object"}, {"$ref": "#/$defs/none"}])
def test_json_without_named_fields_has_no_columns(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        body_of(schema, "plain", "JSON")


@pytest.mark.parametrize(
    ("schema", "form"), [({"type": "string"}, "plain"), (ROW, "change"), ({**ROW, "fields": []}, "plain")]
)
def test_what_is_no_record_of_fields_has_no_columns(schema: dict[str, Any], form: Any) -> None:
    with pytest.raises(InvalidRecord):
        body_of(schema, form)
