from __future__ import annotations

from typing import Any

import fastavro
import pytest

from include.errors import Terminal
from include.index.mapping.avro_types import avro_form
from include.index.mapping.value_types import Leaf, ListOf, MapOf, OneOf, RecordType, Unknown
from tests.support.documents.topic import VALUE

TEXT = Leaf("text", "string")


def record(*fields: tuple[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": [{"name": n, "type": kind} for n, kind in fields]}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ("boolean", Leaf("boolean", "boolean")),
        ({"type": "int"}, Leaf("int", "int")),
        ({"type": "int", "logicalType": "date"}, Leaf("date", "date")),
        ({"type": "int", "logicalType": "time-millis"}, Leaf("time", "time-millis")),
        ({"type": "long", "logicalType": "time-micros"}, Leaf("time", "time-micros")),
        ({"type": "long", "logicalType": "timestamp-millis"}, Leaf("timestamp_millis", "timestamp-millis")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, Leaf("timestamp_micros", "local-timestamp-micros")),
        ({"type": "string", "logicalType": "uuid"}, Leaf("uuid", "uuid")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2},
            Leaf("decimal", "decimal(14,2)", 14, 2),
        ),
        (
            {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 10},
            Leaf("decimal", "decimal(10,0)", 10, 0),
        ),
        ({"type": "fixed", "name": "F", "size": 8}, Leaf("bytes", "fixed(8)")),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, Leaf("enum", "enum E")),
        ({"type": "array", "items": ["null", "string"]}, ListOf(TEXT)),
        ({"type": "map", "values": {"type": "array", "items": "string"}}, MapOf(ListOf(TEXT))),
        (["null", "string"], TEXT),
        (["null"], Leaf("null", "null")),
        (
            [
                {
                    "type": "record",
                    "name": "A",
                    "fields": [{"name": "n", "type": "long"}, {"name": "a", "type": "string"}],
                },
                {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["null", "long"]}]},
            ],
            RecordType({"n": Leaf("long", "long"), "a": TEXT}),
        ),
        (["null", "string", "long"], OneOf((TEXT, Leaf("long", "long")))),
        # Unknown to fastavro, so the value is read as the type below.
        ({"type": "long", "logicalType": "timestamp-nanos"}, Leaf("long", "long")),
        ({"type": "int", "logicalType": "timestamp-millis"}, Leaf("int", "int")),
        ({"type": "long", "lyrebird.type": "time-micros"}, Leaf("long", "long")),
    ],
)
def test_each_type_of_avro_has_its_form(schema: Any, form: Any) -> None:
    assert avro_form(schema) == form


def test_names_are_found_in_their_namespaces() -> None:
    inner = record(("x", "long"), name="Inner", namespace="deep")
    schema = record(("a", inner), ("b", "deep.Inner"), ("c", ["null", "deep.Inner"]), name="shop.Outer")
    point = RecordType({"x": Leaf("long", "long")})
    assert avro_form(schema) == RecordType({"a": point, "b": point, "c": point})
    near = record(("a", record(("x", "long"), name="Inner")), ("b", "Inner"), name="Outer", namespace="shop")
    assert avro_form(near) == RecordType({"a": point, "b": point})


def test_a_schema_that_fastavro_has_parsed_reads_the_same() -> None:
    schema = record(("a", record(("x", "long"), name="Inner")), ("b", ["null", "Inner"]), name="O", namespace="shop")
    assert avro_form(fastavro.parse_schema(schema)) == avro_form(schema)
    assert avro_form(fastavro.parse_schema(VALUE)) == avro_form(VALUE)


def test_a_record_that_holds_itself_is_told_and_not_followed() -> None:
    tree = record(("name", "string"), ("children", {"type": "array", "items": "Node"}), name="Node", namespace="t")
    assert avro_form(tree) == RecordType({"name": TEXT, "children": ListOf(Unknown("record t.Node holds itself"))})


def test_a_name_that_nobody_defines_is_refused() -> None:
    with pytest.raises(Terminal, match="Missing"):
        avro_form(record(("a", "Missing")))
