from __future__ import annotations

from typing import Any

import pytest

from include.index.mapping.check import compare
from include.index.mapping.starter import starter_index
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, OneOf, RecordType, Unknown

INT = Leaf("int", "int")
TEXT = Leaf("text", "string")
PRICE = Leaf("decimal", "decimal(14,2)", 14, 2)


def found(form: Form, field: dict[str, Any], **root: Any) -> list[str]:
    mapping = {"dynamic": "strict", **root, "properties": {"order": field, "metadata": {}}}
    return [f"{each.verdict} {each}" for each in compare(form, mapping, "order")]


def test_a_starter_mapping_has_nothing_to_say_but_its_limits() -> None:
    form = RecordType(
        {
            "id": INT,
            "price": PRICE,
            "name": TEXT,
            "lines": ListOf(RecordType({"price": PRICE, "tags": ListOf(TEXT), "more": MapOf(INT)})),
            "at": Leaf("timestamp_micros", "timestamp-micros"),
            "counts": MapOf(INT),
        }
    )
    verdicts = {each.verdict for each in compare(form, starter_index({"order": form}).mapping(), "order")}
    assert verdicts == {"limited"}


def test_each_field_is_named_by_its_path_with_what_is_sent_and_what_it_becomes() -> None:
    form = RecordType({"lines": ListOf(RecordType({"price": PRICE})), "old": TEXT})
    nested = {"type": "nested", "properties": {"price": {"type": "integer"}}}
    assert found(form, {"properties": {"lines": nested, "gone": {"type": "long"}}}) == [
        "limited order.lines: list of record into nested: a document with over 10,000 elements is refused",
        "coerced order.lines.price: decimal(14,2) into integer: the fraction is cut: 5.9 becomes 5",
        "limited order.lines.price: decimal(14,2) into integer: numbers from 2^31 on are refused",
        "missing order.old: string: not in the mapping yet",
        "unsent order.gone: long: not in the topic's schema",
    ]


@pytest.mark.parametrize(
    ("dynamic", "said"),
    [("strict", "a document with one is refused"), ("false", "they are kept, not searched")],
)
def test_an_object_that_is_open_in_the_schema_is_told(dynamic: str, said: str) -> None:
    form = RecordType({"a": INT}, more=True)
    field = {"properties": {"a": {"type": "integer"}}}
    assert found(form, field, dynamic=dynamic) == [f"limited order: record: the schema allows further names: {said}"]


def test_a_field_of_copies_alone_is_not_missed_in_the_schema() -> None:
    name = {"type": "text", "copy_to": ["order.words"]}
    fields = {"lines": {"type": "nested", "properties": {"name": name}}, "words": {"type": "text"}}
    form = RecordType({"lines": ListOf(RecordType({"name": TEXT}))})
    assert [line for line in found(form, {"properties": fields}) if "words" in line] == []


def test_a_copy_into_a_field_that_a_strict_index_lacks_refuses_documents() -> None:
    field = {"properties": {"name": {"type": "text", "copy_to": "order.words"}}}
    said = "refused order.name: string into text: it is copied to order.words, which the index lacks"
    assert found(RecordType({"name": TEXT}), field) == [said]
    assert found(RecordType({"name": TEXT}), field, dynamic=True) == []


def test_sub_fields_are_judged_on_their_own() -> None:
    field = {"type": "text", "fields": {"exact": {"type": "keyword"}, "number": {"type": "double"}}}
    places = [line.split(":")[0] for line in found(RecordType({"a": TEXT}), {"properties": {"a": field}})]
    assert places == ["limited order.a.exact", "coerced order.a.number"]


@pytest.mark.parametrize(
    ("form", "field", "verdict"),
    [
        (RecordType({"a": INT}), {"type": "keyword"}, "refused"),
        (RecordType({"a": INT}), {"type": "flattened"}, "limited"),
        (INT, {"properties": {}}, "refused"),
        (ListOf(RecordType({})), {"properties": {}}, "coerced"),
        (ListOf(Leaf("float", "float")), {"type": "dense_vector", "dims": 3}, "limited"),
        (ListOf(Leaf("double", "double")), {"type": "geo_point"}, "coerced"),
        (RecordType({"lat": INT, "lon": INT, "name": TEXT}), {"type": "geo_point"}, "limited"),
        (RecordType({"lat": INT}), {"type": "geo_point"}, "refused"),
        (Unknown("record Node holds itself"), {"type": "flattened"}, "limited"),
        (Unknown("record Node holds itself"), {"enabled": False}, "limited"),
        (OneOf((INT, TEXT)), {"type": "integer"}, "coerced"),
        (MapOf(INT), {"properties": {}}, "limited"),
        (MapOf(INT), {"dynamic": "false"}, "limited"),
        (MapOf(INT), {"dynamic": True}, "coerced"),
        (MapOf(INT), {"type": "long"}, "refused"),
    ],
)
def test_forms_beside_types(form: Form, field: dict[str, Any], verdict: str) -> None:
    (line,) = found(RecordType({"a": form}), {"properties": {"a": field}})
    assert line.startswith(f"{verdict} order.a: ")


def test_a_map_whose_names_are_typed_by_rule_is_not_guessed() -> None:
    rule = [{"r": {"path_match": ["order.a.*"], "mapping": {"type": "integer"}}}]
    field = {"properties": {"a": {"dynamic": "true", "properties": {"x": {"type": "boolean"}}}}}
    lines = found(RecordType({"a": MapOf(INT)}), field, dynamic_templates=rule)
    assert [line.split(":")[0] for line in lines] == ["limited order.a", "refused order.a.x"]


def test_where_new_names_are_passed_over_a_missing_field_is_only_unsearched() -> None:
    lines = found(RecordType({"a": INT}), {"dynamic": False, "properties": {}})
    assert lines == ["limited order.a: int: kept in the document, not searched (dynamic: false)"]


def test_an_entity_that_the_mapping_lacks_is_missing() -> None:
    (finding,) = compare(RecordType({"a": INT}), {"dynamic": "strict", "properties": {}}, "click")
    assert (finding.verdict, finding.place) == ("missing", "click")
