from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.index.mapping.json_schema_types import json_schema_form
from include.index.mapping.value_types import Leaf, ListOf, MapOf, OneOf, RecordType, Unknown

TEXT = Leaf("text", "string")
WHOLE = Leaf("long", "integer")


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "boolean"}, Leaf("boolean", "boolean")),
        ({"type": "integer"}, WHOLE),
        ({"type": "number"}, Leaf("double", "number")),
        ({"type": "string"}, TEXT),
        ({"type": "string", "format": "email"}, TEXT),
        ({"type": "string", "format": "date"}, Leaf("date", "date")),
        ({"type": "string", "format": "date-time"}, Leaf("timestamp", "date-time")),
        ({"type": "string", "format": "uuid"}, Leaf("uuid", "uuid")),
        ({"enum": ["a", "b", None]}, Leaf("enum", "enum")),
        ({"const": 3}, WHOLE),
        ({"enum": [{"a": 1}]}, Unknown("an enum of lists or objects")),
        ({"type": ["null", "integer"]}, WHOLE),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, TEXT),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, OneOf((TEXT, WHOLE))),
        ({"allOf": [{"type": "string"}]}, TEXT),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, Unknown("allOf of several schemas")),
        ({"type": "array", "items": {"type": "integer"}}, ListOf(WHOLE)),
        ({"type": "array"}, Unknown("a list of anything")),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, MapOf(WHOLE)),
        ({"type": "object"}, Unknown("an object of anything")),
        ({"type": "object", "additionalProperties": False}, RecordType({})),
        (
            {"properties": {"a": {"type": "integer"}, "b": {}}},
            RecordType({"a": WHOLE, "b": Unknown("anything is allowed")}, more=True),
        ),
        ({"properties": {"a": {"type": "integer"}}, "additionalProperties": False}, RecordType({"a": WHOLE})),
        (
            {"properties": {"a": {"type": "integer"}}, "additionalProperties": False, "patternProperties": {"^x": {}}},
            RecordType({"a": WHOLE}, more=True),
        ),
        (
            {"properties": {"a": {"type": "integer"}}, "oneOf": [{"required": ["a"]}, {"maxProperties": 0}]},
            RecordType({"a": WHOLE}, more=True),
        ),
        (
            {
                "type": "object",
                "properties": {"kind": {"type": "string"}},
                "additionalProperties": False,
                "oneOf": [
                    {"properties": {"a": {"type": "integer"}, "c": {"type": "string"}}},
                    {"properties": {"b": {"type": "boolean"}, "c": {"type": "integer"}}},
                ],
            },
            RecordType({"kind": TEXT, "a": WHOLE, "c": OneOf((TEXT, WHOLE)), "b": Leaf("boolean", "boolean")}),
        ),
        ({"properties": {"a": {"type": "integer"}}, "anyOf": [{"$ref": "#"}]}, Unknown("# holds itself")),
        (
            {
                "$defs": {"b": {"properties": {"b": {"type": "integer"}}}},
                "properties": {"a": {"type": "integer"}},
                "additionalProperties": False,
                "anyOf": [{"$ref": "#/$defs/b"}, True],
            },
            RecordType({"a": WHOLE, "b": WHOLE}),
        ),
        ({}, Unknown("anything is allowed")),
    ],
)
def test_each_word_of_json_schema_has_its_form(schema: dict[str, Any], form: Any) -> None:
    assert json_schema_form(schema) == form


def test_references_are_followed_but_not_in_circles() -> None:
    schema = {
        "$defs": {"line/item": {"properties": {"n": {"type": "integer"}}}, "node": {"$ref": "#/$defs/node"}},
        "properties": {
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line~1item"}},
            "tree": {"$ref": "#/$defs/node"},
            "self": {"$ref": "#"},
        },
    }
    assert json_schema_form(schema) == RecordType(
        {
            "lines": ListOf(RecordType({"n": WHOLE}, more=True)),
            "tree": Unknown("#/$defs/node holds itself"),
            "self": RecordType(
                {
                    "lines": ListOf(RecordType({"n": WHOLE}, more=True)),
                    "tree": Unknown("#/$defs/node holds itself"),
                    "self": Unknown("# holds itself"),
                },
                more=True,
            ),
        },
        more=True,
    )


@pytest.mark.parametrize("reference", ["#/$defs/none", "other.json#/a"])
def test_a_reference_that_leads_nowhere_is_refused(reference: str) -> None:
    with pytest.raises(Terminal, match=r"\$defs"):
        json_schema_form({"properties": {"a": {"$ref": reference}}})
