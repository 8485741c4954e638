from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.index.mapping.check import compare
from include.index.mapping.evolution import Evolver, evolve
from include.index.mapping.starter import starter_index
from include.index.mapping.value_types import Form, Leaf, ListOf, MapOf, RecordType
from include.index.server.memory_admin import MemoryAdmin
from tests.support.documents.topic import MAPPING, VALUE

INT = Leaf("int", "int")
LONG = Leaf("long", "long")
TEXT = Leaf("text", "string")
EXACT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 8191}}}
NAME = "orders-v1"


def mapping(form: Form) -> dict[str, Any]:
    return starter_index({"order": form}).mapping()


def additions(form: Form, live: Mapping[str, Any], declared: Mapping[str, Any] | None = None) -> Any:
    return evolve(form, "order", live, declared or live).mapping


def test_a_schema_that_the_mapping_knows_asks_for_nothing() -> None:
    form = RecordType({"id": LONG, "lines": ListOf(RecordType({"n": INT})), "counts": MapOf(INT)})
    plan = evolve(form, "order", mapping(form), {})
    assert (plan.mapping, plan.places, plan.hindrances) == ({}, (), ())


def test_a_new_field_is_added_as_declared_else_as_a_starter_mapping_has_it() -> None:
    live = mapping(RecordType({"id": LONG}))
    form = RecordType({"id": LONG, "note": TEXT, "code": TEXT})
    declared = {"properties": {"order": {"properties": {"code": {"type": "keyword"}}}}}
    plan = evolve(form, "order", live, declared)
    assert plan.mapping == {"properties": {"order": {"properties": {"note": EXACT, "code": {"type": "keyword"}}}}}
    assert plan.places == ("order.note", "order.code")
    assert plan.hindrances == ()


def test_a_field_within_a_list_of_records_is_added_within_the_nested_field() -> None:
    live = mapping(RecordType({"lines": ListOf(RecordType({"n": INT}))}))
    form = RecordType({"lines": ListOf(RecordType({"n": INT, "gift": Leaf("boolean", "boolean")}))})
    lines = {"type": "nested", "properties": {"gift": {"type": "boolean"}}}
    assert additions(form, live) == {"properties": {"order": {"properties": {"lines": lines}}}}


def test_what_a_declared_object_lacks_is_filled_from_the_schema() -> None:
    declared = {"properties": {"order": {"properties": {"place": {"properties": {"city": {"type": "keyword"}}}}}}}
    form = RecordType({"place": RecordType({"city": TEXT, "floor": INT})})
    place = {"properties": {"city": {"type": "keyword"}, "floor": {"type": "integer"}}}
    found = additions(form, mapping(RecordType({})), declared)
    assert found == {"properties": {"order": {"properties": {"place": place}}}}


def test_a_new_map_brings_its_rule_beside_those_that_there_are() -> None:
    live = mapping(RecordType({"counts": MapOf(INT)}))
    found = additions(RecordType({"counts": MapOf(INT), "notes": MapOf(TEXT)}), live)
    assert [name for rule in found["dynamic_templates"] for name in rule] == ["order.counts", "order.notes"]
    assert found["properties"]["order"]["properties"]["notes"]["type"] == "object"


def test_a_rule_that_another_evolution_put_away_comes_back() -> None:
    form = RecordType({"counts": MapOf(INT)})
    live = {**mapping(form), "dynamic_templates": []}
    plan = evolve(form, "order", live, {})
    assert plan.mapping == {"dynamic_templates": mapping(form)["dynamic_templates"]}
    assert plan.hindrances == ()


def test_names_of_a_record_that_was_a_map_keep_the_type_of_the_maps_values() -> None:
    live = mapping(RecordType({"counts": MapOf(INT)}))
    fits = evolve(RecordType({"counts": RecordType({"a": INT})}), "order", live, {})
    counts = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert (fits.mapping, fits.hindrances) == ({"properties": {"order": {"properties": {"counts": counts}}}}, ())
    plan = evolve(RecordType({"counts": RecordType({"a": Leaf("date", "date")})}), "order", live, {})
    assert [str(each) for each in plan.hindrances] == [
        "order.counts.a: date into integer: no value of this kind fits the type"
    ]


@pytest.mark.parametrize(
    "field",
    [{"dynamic": False}, {"enabled": False}, {"type": "flattened"}],
)
def test_nothing_is_added_where_the_mapping_passes_new_names_over(field: dict[str, Any]) -> None:
    live = {"dynamic": "strict", "properties": {"order": {"properties": {"place": field}}}}
    assert additions(RecordType({"place": RecordType({"city": TEXT})}), live) == {}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (INT, Leaf("boolean", "boolean"), "order.a: boolean into integer: no value"),
        (INT, RecordType({"b": INT}), "order.a: record into integer: no value"),
        (
            RecordType({"b": INT}),
            ListOf(RecordType({"b": INT})),
            "order.a: list of record into object: a query matches",
        ),
        (RecordType({"b": INT}), INT, "order.a: int into object: no value"),
        (INT, Leaf("double", "double"), "order.a: double into integer: the fraction is cut"),
        (TEXT, RecordType({"b": INT}), "order.a: record into text: no value"),
    ],
)
def test_a_type_that_no_longer_fits_hinders(old: Form, new: Form, told: str) -> None:
    plan = evolve(RecordType({"a": new}), "order", mapping(RecordType({"a": old})), {})
    assert any(str(each).startswith(told) for each in plan.hindrances)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LONG, INT),
        (TEXT, Leaf("enum", "enum E")),
        (INT, LONG),
        (ListOf(RecordType({"b": INT})), RecordType({"b": INT})),
    ],
)
def test_a_type_that_still_fits_asks_for_nothing(old: Form, new: Form) -> None:
    plan = evolve(RecordType({"a": new}), "order", mapping(RecordType({"a": old})), {})
    assert (plan.mapping, plan.hindrances) == ({}, ())


def test_a_coercion_that_somebody_accepted_does_not_hinder_and_a_refusal_always_does() -> None:
    live = mapping(RecordType({"a": INT, "b": INT}))
    form = RecordType({"a": Leaf("double", "double"), "b": Leaf("boolean", "boolean")})
    plan = evolve(form, "order", live, {}, accepted=["order.a", "order.b"])
    assert [each.place for each in plan.hindrances] == ["order.b"]


scalars = st.sampled_from([INT, TEXT, Leaf("date", "date"), Leaf("decimal", "decimal(9,2)", 9, 2)])
forms = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abcd"), inner, max_size=4).map(RecordType),
        inner.map(ListOf),
        scalars.map(MapOf),
    ),
    max_leaves=10,
)
records = st.dictionaries(st.sampled_from("abcd"), forms, max_size=4).map(RecordType)


@given(records, records)
def test_after_an_evolution_nothing_is_missing_or_the_hindrance_is_told(old: RecordType, new: RecordType) -> None:
    admin = MemoryAdmin()
    admin.create(NAME, {"mappings": mapping(old)})
    plan = evolve(new, "order", live(admin), {})
    if plan.hindrances:
        return
    admin.put_mapping(NAME, plan.mapping)
    assert {each.verdict for each in compare(new, live(admin), "order")} <= {"limited", "unsent"}
    assert evolve(new, "order", live(admin), {}).mapping == {}
    # Documents of the older schema still fit.
    assert not evolve(old, "order", live(admin), {}).hindrances


def live(admin: MemoryAdmin) -> Mapping[str, Any]:
    info = admin.describe(NAME)
    assert info is not None
    return info.mapping


def newer(**fields: Any) -> dict[str, Any]:
    more = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]
    return {**VALUE, "fields": [*VALUE["fields"], *more]}


class Puts:
    """Records puts; `before` runs ahead of each, as another process might."""

    def __init__(self, admin: MemoryAdmin) -> None:
        self.admin, self.done = admin, 0
        self.before: list[Any] = []

    def __call__(self, name: str, fields: Mapping[str, Any]) -> None:
        if self.before:
            self.before.pop()()
        self.done += 1
        self.admin.put_mapping(name, fields)


def evolver(admin: MemoryAdmin, put: Any) -> Evolver:
    return Evolver(admin.describe, put, NAME, entity="order", value="plain", declared=MAPPING, accepted=["order.note"])


@pytest.fixture
def admin() -> MemoryAdmin:
    found = MemoryAdmin()
    found.create(NAME, {"mappings": copy.deepcopy(MAPPING)})
    return found


def test_a_schema_is_looked_at_once_and_adds_its_fields(admin: MemoryAdmin) -> None:
    put = Puts(admin)
    evolve_for = evolver(admin, put)
    assert evolve_for(1, VALUE, "AVRO") == ()
    assert evolve_for(2, newer(city="string"), "AVRO") == ("order.city",)
    assert live(admin)["properties"]["order"]["properties"]["city"] == EXACT
    assert [evolve_for(n, newer(city="string"), "AVRO") for n in (2, 2, 3)] == [(), (), ()]
    assert put.done == 1


def test_who_comes_second_finds_the_work_done(admin: MemoryAdmin) -> None:
    put = Puts(admin)
    put.before = [lambda: evolver(admin, admin.put_mapping)(2, newer(city="string"), "AVRO")]
    assert evolver(admin, put)(2, newer(city="string"), "AVRO") == ("order.city",)
    assert live(admin)["properties"]["order"]["properties"]["city"] == EXACT


def test_who_meets_another_type_put_meanwhile_plans_again(admin: MemoryAdmin) -> None:
    put = Puts(admin)
    put.before = [lambda: evolver(admin, admin.put_mapping)(3, newer(size="int", city="string"), "AVRO")]
    with pytest.raises(Terminal, match=r"order\.size: record into integer"):
        evolver(admin, put)(2, newer(size={"type": "record", "name": "S", "fields": []}), "AVRO")


def test_an_incompatible_schema_stops_with_the_fields_and_what_to_do(admin: MemoryAdmin) -> None:
    changed = {**VALUE, "fields": [{"name": "order_id", "type": "string"}, {"name": "note", "type": "boolean"}]}
    with pytest.raises(
        Terminal,
        match=r"order\.note: boolean into integer.*lyrebird index rebuild orders`.*drop orders --generation 1`\.$",
    ):
        evolver(admin, admin.put_mapping)(2, changed, "AVRO")
    with pytest.raises(Terminal, match=r"coerced: \[order\.order_id\]. in .indexes\.orders."):
        evolver(admin, admin.put_mapping)(2, {**VALUE, "fields": changed["fields"][:1]}, "AVRO")


def test_a_new_field_without_a_type_stops_with_its_place(admin: MemoryAdmin) -> None:
    with pytest.raises(Terminal, match=r"order\.either.*by hand"):
        evolver(admin, admin.put_mapping)(2, newer(either=["string", "long"]), "AVRO")


def test_an_index_that_is_gone_is_told(admin: MemoryAdmin) -> None:
    admin.drop(NAME)
    with pytest.raises(Terminal, match="lyrebird index create orders"):
        evolver(admin, admin.put_mapping)(1, VALUE, "AVRO")


def test_a_server_that_refuses_again_and_again_is_told_with_its_reason(admin: MemoryAdmin) -> None:
    def refuse(name: str, fields: Mapping[str, Any]) -> None:
        raise Terminal("Elasticsearch refuses", reason="Limit of total fields [1000] has been exceeded")

    with pytest.raises(Terminal, match="Limit of total fields"):
        evolver(admin, refuse)(2, newer(city="string"), "AVRO")


def test_a_folded_field_that_an_older_index_refuses_names_the_rebuild(admin: MemoryAdmin) -> None:
    declared = copy.deepcopy(MAPPING)
    declared["properties"]["order"]["properties"]["city"] = {"type": "text", "analyzer": "folded"}

    def refuse(name: str, fields: Mapping[str, Any]) -> None:
        raise Terminal("Elasticsearch refuses", reason="analyzer [folded] has not been configured in mappings")

    made = Evolver(admin.describe, refuse, NAME, entity="order", value="plain", declared=declared)
    with pytest.raises(Terminal, match="lyrebird index rebuild"):
        made(2, newer(city="string"), "AVRO")
