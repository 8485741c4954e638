from __future__ import annotations

from typing import Any

import pytest

from include.errors import Terminal
from include.index.mapping.declared import require_metadata
from include.index.mapping.starter import starter, starter_index
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, OneOf, RecordType, Unknown

EXACT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 8191}}}
TEXT = Leaf("text", "string")
INT = Leaf("int", "int")
UNSEARCHED = {"type": "object", "enabled": False}


@pytest.mark.parametrize(
    ("form", "mapping"),
    [
        (Leaf("boolean", "boolean"), {"type": "boolean"}),
        (INT, {"type": "integer"}),
        (Leaf("long", "long"), {"type": "long"}),
        (Leaf("float", "float"), {"type": "float"}),
        (Leaf("double", "double"), {"type": "double"}),
        (Leaf("bytes", "bytes"), {"type": "keyword"}),
        (TEXT, EXACT),
        (Leaf("enum", "enum E"), {"type": "keyword"}),
        (Leaf("uuid", "uuid"), {"type": "keyword"}),
        (Leaf("decimal", "decimal(15,2)", 15, 2), {"type": "double"}),
        (Leaf("decimal", "decimal(16,2)", 16, 2), {"type": "keyword"}),
        (Leaf("date", "date"), {"type": "date"}),
        (Leaf("time", "time-micros"), {"type": "keyword"}),
        (Leaf("timestamp_millis", "timestamp-millis"), {"type": "date"}),
        (Leaf("timestamp_micros", "timestamp-micros"), {"type": "date_nanos"}),
        (Leaf("timestamp", "date-time"), {"type": "date_nanos"}),
        (Leaf("null", "null"), UNSEARCHED),
        (RecordType({"a": INT, "b": TEXT}), {"properties": {"a": {"type": "integer"}, "b": EXACT}}),
        (ListOf(INT), {"type": "integer"}),
        (ListOf(ListOf(TEXT)), EXACT),
        (ListOf(RecordType({"a": INT})), {"type": "nested", "properties": {"a": {"type": "integer"}}}),
        (MapOf(INT), {"type": "object", "dynamic": True, "subobjects": False}),
        (OneOf((Leaf("bytes", "bytes"), Leaf("enum", "enum E"))), {"type": "keyword"}),
    ],
)
def test_each_form_has_its_type(form: Form, mapping: dict[str, Any]) -> None:
    assert starter(form, "order.x").mapping() == mapping


def test_names_of_a_map_are_typed_as_its_values_and_never_by_guessing() -> None:
    found = starter_index({"order": RecordType({"attrs": MapOf(ListOf(TEXT)), "sums": MapOf(MapOf(INT))})})
    template = {"match_mapping_type": "*"}
    assert found.mapping()["dynamic_templates"] == [
        {"order.attrs": {**template, "path_match": "order.attrs.*", "mapping": EXACT}},
        {"order.sums": {**template, "path_match": "order.sums.*", "mapping": {"type": "integer"}}},
    ]


def test_an_index_refuses_fields_that_nobody_declared_and_has_the_metadata_fields() -> None:
    mapping = starter_index({"order": RecordType({"a": INT}), "click": RecordType({"b": TEXT})}).mapping()
    assert mapping["dynamic"] == "strict"
    assert list(mapping["properties"]) == ["order", "click", "metadata"]
    assert "dynamic_templates" not in mapping
    require_metadata("orders", mapping)


def test_every_place_that_no_mapping_follows_for_is_named_with_its_reason() -> None:
    form = RecordType(
        {
            "either": OneOf((TEXT, INT)),
            "tree": RecordType({"children": ListOf(Unknown("record Node holds itself"))}),
            "by_name": MapOf(RecordType({"a": INT})),
            "": INT,
            "a.b": INT,
            "good": INT,
        }
    )
    with pytest.raises(Terminal) as refused:
        starter(form, "order")
    assert refused.value.details["places"] == {
        "order.either": "values of several types: text, integer",
        "order.tree.children": "record Node holds itself",
        "order.by_name": "a map of records",
        "order.": "a field's name is not empty and has no '.' or '*'",
        "order.a.b": "a field's name is not empty and has no '.' or '*'",
    }
    assert "--unsearched" in str(refused.value)


def test_a_place_can_be_kept_without_being_searched() -> None:
    form = RecordType({"tree": RecordType({"children": ListOf(Unknown("record Node holds itself"))}), "a": INT})
    found = starter(form, "order", ["order.tree"])
    assert found.mapping() == {"properties": {"tree": UNSEARCHED, "a": {"type": "integer"}}}
    with pytest.raises(Terminal, match=r"order\.nothing"):
        starter(form, "order", ["order.tree", "order.nothing"])


def test_every_choice_has_the_schemas_own_word_and_what_can_be_chosen_instead() -> None:
    price = Leaf("decimal", "decimal(14,2)", 14, 2)
    form = RecordType({"price": price, "tags": ListOf(TEXT), "counts": MapOf(INT), "n": INT})
    fields = starter(form, "order").properties or {}
    assert [each.comment for each in fields.values()] == ["decimal(14,2)", "list of string", "map of int", "int"]
    assert "scaled_float" in fields["price"].legend
    assert "{type: keyword}" in fields["tags"].legend
    assert "{type: flattened}" in fields["counts"].legend
    assert fields["n"].legend == ""
    assert "geo_point" in starter(RecordType({"lat": INT, "lon": INT}), "order.place").legend
