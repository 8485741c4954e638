"""The verdict on the index of advertisers, and the wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from demo.advertisers import _awaited, told_of
from demo.part_summary import PartSummary
from include.clock import ManualClock
from include.errors import Transient


def row(package: int, owner: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "business_id": 7,
        "business_name": "Business 007",
        "vertical_id": 1,
        "package_id": package,
        "plan": "plus",
        "monthly_price": "99.12",
        "status": "running",
        "starts_on": "2026-03-04",
        "owner_id": owner,
        "owner_name": None if owner is None else f"Owner {owner}",
        "owner_phone": None if owner is None else "***********123",
        "owner_language": None if owner is None else "de",
        **more,
    }


def numbers(told: PartSummary) -> tuple[int, ...]:
    values = told.values["advertisers"]
    return tuple(values[name] for name in ("rows", "different", "missing", "extra"))


def test_equal_rows_in_any_order_are_good_and_the_newest_package_is_shown() -> None:
    told = told_of([row(1, 3), row(2)], [row(2), row(1, 3)])
    assert told.good
    assert numbers(told) == (2, 0, 0, 0)
    assert told.lines[0].startswith("advertisers: 2 rows in the index, as SQL over both servers says")
    assert told.lines[1] == "  Business 007: plus for 99.12 a month, running from 2026-03-04; no owner"
    assert "Owner 3 (de, ***********123)" in told_of([row(9, 3)], [row(9, 3)]).lines[1]


def test_an_index_without_a_row_proves_nothing() -> None:
    assert not told_of([], []).good


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        ([row(1, 3)], (2, 0, 1, 0), "missing: (7, 2, None)"),
        ([row(1, 3), row(2), row(2, 5)], (2, 0, 0, 1), "too many: (7, 2, 5)"),
        ([row(1, 3), row(2), row(2)], (2, 0, 0, 1), "1 too many"),
        ([row(1, 3), row(2, status="paused")], (2, 1, 0, 0), "status: MySQL 'running', search 'paused'"),
    ],
)
def test_each_difference_is_counted_and_told(found: list[dict[str, Any]], expected: tuple[int, ...], said: str) -> None:
    told = told_of([row(1, 3), row(2)], found)
    assert not told.good
    assert numbers(told) == expected
    assert any(said in line for line in told.lines)


def test_what_is_not_equal_yet_is_looked_at_again_and_a_silent_index_too() -> None:
    answers: Iterator[PartSummary | Transient] = iter(
        [Transient("away", system="elasticsearch"), told_of([row(1)], []), told_of([row(1)], [row(1)])]
    )

    def look() -> PartSummary:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert _awaited(look, ManualClock()).good


def test_what_stays_unequal_is_told_when_the_time_is_over() -> None:
    clock = ManualClock()
    began_s = clock.monotonic_s()
    assert not _awaited(lambda: told_of([row(1)], []), clock).good
    assert clock.monotonic_s() - began_s >= 90


def test_an_index_that_stays_silent_is_an_error() -> None:
    def look() -> PartSummary:
        raise Transient("away", system="elasticsearch")

    with pytest.raises(Transient):
        _awaited(look, ManualClock())
