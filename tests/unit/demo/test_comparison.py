from __future__ import annotations

from typing import Any

import pytest

from demo.comparison import compare, differences

BODY: dict[str, Any] = {
    "order_id": 1,
    "total_price": "12.30",
    "entry": {"channel": "web", "campaign": None},
    "lines": [{"line_no": 1, "quantity": 2}],
}


def _with(**changes: Any) -> dict[str, Any]:
    return {**BODY, **changes}


def test_equal_bodies_are_searchable() -> None:
    result = compare([BODY], {1: dict(BODY)})
    assert (result.searchable, result.equal, result.explain()) == (1, True, [])


def test_a_field_that_is_null_may_be_absent() -> None:
    assert differences(BODY, _with(entry={"channel": "web"})) == []


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (_with(total_price="12.3"), "total_price"),
        (_with(total_price=12.3), "total_price"),
        (_with(lines=[{"line_no": 1, "quantity": 3}]), "lines[0].quantity"),
        (_with(lines=[]), "lines"),
        (_with(secret="x"), "secret"),
        (_with(entry={"channel": "app"}), "entry.channel"),
    ],
)
def test_each_difference_is_named_by_its_path(found: dict[str, Any], path: str) -> None:
    result = compare([BODY], {1: found})
    assert not result.equal
    assert [line.split(":")[0] for line in result.different[1]] == [path]


def test_an_order_that_only_one_side_has_is_told() -> None:
    result = compare([BODY], {2: _with(order_id=2)})
    assert (result.missing, result.extra, result.searchable) == ([1], [2], 0)
    assert len(result.explain()) == 2


def test_an_integer_is_no_boolean_and_no_text() -> None:
    assert differences({"a": 1}, {"a": True}) != []
    assert differences({"a": 1}, {"a": "1"}) != []
