"""Look-ups: which row is taken, in which order, how deep, and how many reads that costs."""

from __future__ import annotations

from typing import Any

import pytest

from include.document.definition import FactTable, Hop, JoinPath, Lookup
from include.document.reading.lookup import LookupPlace, MissingRow, PartSource, attach, keys_behind
from include.document.reading.tables import MemoryTables

TABLES = {
    "owners": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}],
    "pets": [
        {"id": 7, "owner": 1, "name": "Rex", "age": 3, "vet": 5},
        {"id": 8, "owner": 1, "name": "Tom", "age": None, "vet": None},
        {"id": 9, "owner": 1, "name": "Ann", "age": 1, "vet": 6},
    ],
    "vets": [{"id": 5, "name": "Dr. Owl"}],
}


def looked_up(lookup: dict[str, Any], on_source: Any = None) -> tuple[list[Any], dict[int, list[MissingRow]], int]:
    """What the field `it` becomes for the two owners, what is missing for each, and the reads."""
    tables = MemoryTables(TABLES, {})
    places = [LookupPlace(n, row, {}) for n, row in enumerate(TABLES["owners"])]
    missing: dict[int, list[MissingRow]] = {}
    attach(
        tables,
        {"it": Lookup.model_validate({"table": "pets", "where": {"owner": "id"}, **lookup})},
        places,
        lambda root, what: missing.setdefault(root, []).append(what),
        on_source,
    )
    return [place.body["it"] for place in places], missing, tables.reads


@pytest.mark.parametrize(
    ("lookup", "value"),
    [
        ({"order_by": ["id"]}, "Rex"),
        ({"order_by": ["id"], "take": "last"}, "Ann"),
        ({"order_by": ["age"]}, "Tom"),
        ({"order_by": ["age"], "take": "last"}, "Rex"),
    ],
)
def test_one_row_is_the_first_or_last_by_its_order_with_null_before_all(lookup: dict[str, Any], value: str) -> None:
    found, missing, _ = looked_up({**lookup, "value": "name"})
    assert found == [value, None]
    assert missing == {1: [MissingRow("it", "pets", {"owner": 2})]}


def test_many_rows_are_a_list_in_order_and_none_is_an_empty_one() -> None:
    found, missing, reads = looked_up(
        {"many": True, "order_by": ["name"], "fields": {"n": "name", "more": {"a": "age"}}}
    )
    assert found == [
        [{"n": "Ann", "more": {"a": 1}}, {"n": "Rex", "more": {"a": 3}}, {"n": "Tom", "more": {"a": None}}],
        [],
    ]
    assert (missing, reads) == ({}, 1)


@pytest.mark.parametrize("required", [True, False])
def test_a_look_up_below_another_is_one_read_for_all_rows_and_tells_where_one_is_missing(required: bool) -> None:
    below = {"table": "vets", "where": {"id": "vet"}, "fields": {"name": "name"}, "required": required}
    found, missing, reads = looked_up(
        {"many": True, "order_by": ["id"], "fields": {"n": "name"}, "lookups": {"vet": below}}
    )
    assert found[0] == [{"n": "Rex", "vet": {"name": "Dr. Owl"}}, {"n": "Tom", "vet": None}, {"n": "Ann", "vet": None}]
    assert reads == 2
    told = [MissingRow("it.vet", "vets", {"id": None}), MissingRow("it.vet", "vets", {"id": 6})]
    assert missing == ({0: told} if required else {})


def test_sources_name_each_read_of_a_document() -> None:
    told: list[tuple[int, PartSource]] = []
    looked_up({"value": "name", "required": False}, lambda root, source: told.append((root, source)))
    assert told == [(0, PartSource("it", "pets", {"owner": 1}, 3)), (1, PartSource("it", "pets", {"owner": 2}, 0))]


LINKED: dict[str, list[dict[str, Any]]] = {
    "owners": [{"id": 1}, {"id": 2}, {"id": 3}],
    "tagged": [{"owner": 1, "tag": 5}, {"owner": 1, "tag": 6}, {"owner": 2, "tag": 5}, {"owner": 3, "tag": 9}],
    "tags": [{"id": 5, "name": "old"}, {"id": 6, "name": "kind"}],
}


@pytest.mark.parametrize(
    ("many", "found", "missing"),
    [(True, [["kind", "old"], ["old"], []], []), (False, ["kind", "old", None], [2])],
)
def test_all_rows_between_are_followed_not_only_the_first(many: bool, found: list[Any], missing: list[int]) -> None:
    lookup = Lookup.model_validate(
        {
            "via": [{"table": "tagged", "where": {"owner": "id"}}],
            "table": "tags",
            "where": {"id": "tag"},
            "many": many,
            "order_by": ["name"],
            "value": "name",
        }
    )
    places = [LookupPlace(n, row, {}) for n, row in enumerate(LINKED["owners"])]
    lacks: list[int] = []
    told: list[PartSource] = []
    attach(
        MemoryTables(LINKED, {}),
        {"it": lookup},
        places,
        lambda root, _: lacks.append(root),
        lambda _, source: told.append(source),
    )
    assert [place.body["it"] for place in places] == found
    assert lacks == missing
    assert [each.rows for each in told] == [2, 1, 1, 1, 1, 1, 0]


def test_rows_that_are_equal_by_their_order_still_come_in_one_order() -> None:
    lookup = Lookup.model_validate({"table": "pets", "where": {"owner": "id"}, "many": True, "value": "name"})
    for rows in (TABLES["pets"], TABLES["pets"][::-1]):
        places = [LookupPlace(0, {"id": 1}, {})]
        attach(MemoryTables({"pets": rows}, {}), {"it": lookup}, places, lambda *_: None)
        assert places[0].body["it"] == ["Ann", "Rex", "Tom"]


PLACES: dict[str, list[dict[str, Any]]] = {
    "orders": [{"id": 1, "city": "Köln "}, {"id": 2, "city": "KÖLN"}, {"id": 3, "city": "bonn"}],
    "cities": [{"name": "köln", "country": "DE"}, {"name": "Bonn", "country": "DE"}],
}


def test_texts_join_as_the_database_holds_them_equal_and_a_row_is_found_once() -> None:
    lookup = Lookup.model_validate({"table": "cities", "where": {"name": "city"}, "many": True, "value": "country"})
    for fold, found in ((lambda text: text.strip().lower(), [["DE"]] * 3), (str, [[]] * 3)):
        tables = MemoryTables(PLACES, {}, fold)
        places = [LookupPlace(n, row, {}) for n, row in enumerate(PLACES["orders"])]
        attach(tables, {"it": lookup}, places, lambda *_: None)
        assert [place.body["it"] for place in places] == found


def test_the_way_back_from_a_text_finds_all_keys_whose_rows_are_equal_to_it() -> None:
    path = JoinPath((Hop(table="cities", where={"name": "city"}),), ("country",))
    fact = FactTable(table="orders", key=["id"], newest_by="id", state="s", final=["x"])
    tables = MemoryTables(PLACES, {}, lambda text: text.strip().lower())
    assert keys_behind(tables, fact, path, {("KöLN",): 7, ("köln",): 9}, 10) == {(1,): 9, (2,): 9}
    assert keys_behind(tables, fact, path, {("KöLN",): 7, ("köln",): 9}, 1) is None
