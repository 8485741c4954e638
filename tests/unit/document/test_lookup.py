"""Look-ups: which row is taken, in which order, how deep, and how many reads that costs."""

from __future__ import annotations

from typing import Any

import pytest

from include.document.definition import Lookup
from include.document.lookup import Missing, Place, Source, attach
from include.document.tables import MemoryTables

TABLES = {
    "owners": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}],
    "pets": [
        {"id": 7, "owner": 1, "name": "Rex", "age": 3, "vet": 5},
        {"id": 8, "owner": 1, "name": "Tom", "age": None, "vet": None},
        {"id": 9, "owner": 1, "name": "Ann", "age": 1, "vet": 6},
    ],
    "vets": [{"id": 5, "name": "Dr. Owl"}],
}


def looked_up(lookup: dict[str, Any], on_source: Any = None) -> tuple[list[Any], dict[int, list[Missing]], int]:
    """What the field `it` becomes for the two owners, what is missing for each, and the reads."""
    tables = MemoryTables(TABLES, {})
    places = [Place(n, row, {}) for n, row in enumerate(TABLES["owners"])]
    missing: dict[int, list[Missing]] = {}
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
    assert missing == {1: [Missing("it", "pets", {"owner": 2})]}


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
    told = [Missing("it.vet", "vets", {"id": None}), Missing("it.vet", "vets", {"id": 6})]
    assert missing == ({0: told} if required else {})


def test_sources_name_each_read_of_a_document() -> None:
    told: list[tuple[int, Source]] = []
    looked_up({"value": "name", "required": False}, lambda root, source: told.append((root, source)))
    assert told == [(0, Source("it", "pets", {"owner": 1}, 3)), (1, Source("it", "pets", {"owner": 2}, 0))]
