from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.search.dark_launch.compare import AnswerDifference, ComparisonRules, Listing, differences, same_value

RULES = ComparisonRules("at")


def listing(*documents: tuple[str, int], size: int | None = None, **more: Any) -> Listing:
    return Listing(tuple((i, {"at": f"2026-11-02T03:04:{at:02}Z", **more}) for i, at in documents), size)


def kinds(found: list[AnswerDifference]) -> list[tuple[str, str]]:
    return [(each.kind, each.doc_id) for each in found]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-11-02T03:04:05Z", "2026-11-02T03:04:05.000000+00:00"),
        ("2026-11-02T03:04:05Z", "2026-11-02T05:04:05+02:00"),
        ("2026-11-02 03:04:05", "2026-11-02T03:04:05.000000Z"),
        (dt.datetime(2026, 11, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-11-02T03:04:05Z"),
        (Decimal("12.30"), "12.3"),
        (12.3, "12.30"),
        (12, 12.0),
        ("x", "x"),
        (None, None),
        (2**60 + 1, str(2**60 + 1)),
    ],
)
def test_what_means_the_same_is_no_difference(old: Any, new: Any) -> None:
    assert same_value(old, new)
    assert same_value(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-11-02T03:04:05Z", "2026-11-02T03:04:05.000001Z"),
        ("2026-11-02T03:04:05Z", "2026-11-02T03:04:05+02:00"),
        (Decimal("12.30"), "12.31"),
        ("12.30", "12.3"),
        (True, 1),
        (None, ""),
        (0, None),
        (2**60 + 1, 2**60),
        ("7", "seven"),
        (7, "seven"),
    ],
)
def test_what_means_something_else_is_one(old: Any, new: Any) -> None:
    assert not same_value(old, new)
    assert not same_value(new, old)


def test_moments_are_compared_as_precisely_as_the_coarser_store_keeps_them() -> None:
    assert same_value("2026-11-02T03:04:05.123Z", "2026-11-02T03:04:05.123999Z", precision_us=1000)
    assert not same_value("2026-11-02T03:04:05.123Z", "2026-11-02T03:04:05.124Z", precision_us=1000)


bodies = st.dictionaries(
    st.sampled_from(["at", "a", "b", "lines"]),
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.dictionaries(st.just("q"), st.integers())),
)


@given(st.lists(st.tuples(st.integers(0, 9).map(str), bodies), unique_by=lambda each: each[0]), st.none() | st.just(99))
def test_an_answer_is_the_same_as_itself(documents: list[tuple[str, dict[str, Any]]], size: int | None) -> None:
    answer = Listing(tuple(documents), size)
    assert differences(answer, answer, RULES) == []


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.integers(1, 5), st.integers(1, 5))
def test_pages_of_different_sizes_are_compared_as_far_as_both_go(ids: list[int], one: int, other: int) -> None:
    whole = [(str(n), n) for n in sorted(ids, reverse=True)]
    assert differences(listing(*whole[:one], size=one), listing(*whole[:other], size=other), RULES) == []


def test_a_document_that_one_store_lacks_is_missing_or_extra() -> None:
    old, new = listing(("3", 3), ("1", 1)), listing(("3", 3), ("2", 2))
    assert kinds(differences(old, new, RULES)) == [("missing", "1"), ("extra", "2")]


def test_of_documents_as_old_as_the_last_of_a_full_page_either_may_be_shown() -> None:
    old, new = listing(("3", 3), ("1", 1), size=2), listing(("3", 3), ("2", 1), size=2)
    assert differences(old, new, RULES) == []
    assert len(differences(listing(("3", 3), ("1", 1), size=9), listing(("3", 3), ("2", 1), size=9), RULES)) == 2


def test_another_order_is_told_once_and_of_equal_times_never() -> None:
    assert kinds(differences(listing(("2", 2), ("1", 1)), listing(("1", 1), ("2", 2)), RULES)) == [("order", "2")]
    assert differences(listing(("2", 5), ("1", 5)), listing(("1", 5), ("2", 5)), RULES) == []


def test_fields_are_compared_to_the_bottom_and_named_without_the_places_of_items() -> None:
    old = listing(("1", 1), lines=[{"q": 1}, {"q": 2, "note": None}], total=Decimal("2.50"), gone=None)
    new = listing(("1", 1), lines=[{"q": 1}, {"q": 3}], total="2.5")
    assert differences(old, new, RULES) == [AnswerDifference("field", "1", "lines.q", 2, 3)]
    assert differences(old, new, RULES)[0].name == "field lines.q"
    assert differences(old, new, ComparisonRules("at", ignored=frozenset({"lines.q"}))) == []


def test_lists_of_different_lengths_differ() -> None:
    found = differences(listing(("1", 1), lines=[1, 2]), listing(("1", 1), lines=[1]), RULES)
    assert found == [AnswerDifference("field", "1", "lines", 2, None)]
