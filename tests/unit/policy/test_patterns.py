"""Names and patterns of tables, and whether some leave nothing to another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.policy.patterns import TablePattern, covers

NAMES = ["".join(letters) for n in range(1, 6) for letters in itertools.product("abz", repeat=n)]
PARTS = st.text("ab*?", min_size=1, max_size=3)


def matches(pattern: str, name: str) -> bool:
    """The rule said once more, by recursion."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return matches(pattern[1:], name) or (bool(name) and matches(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and matches(pattern[1:], name[1:])


@given(PARTS, st.text("ab[.\n", min_size=1, max_size=5))
def test_a_star_is_any_characters_and_a_question_mark_is_one(pattern: str, name: str) -> None:
    assert TablePattern.parse(f"shop.{pattern}").matches("shop", name) == matches(pattern, name)


@given(st.lists(PARTS, max_size=3), PARTS)
def test_covered_is_what_has_no_name_of_its_own(others: Sequence[str], pattern: str) -> None:
    own = [n for n in NAMES if matches(pattern, n) and not any(matches(other, n) for other in others)]
    assert covers(others, pattern) == (not own)


@pytest.mark.parametrize(
    ("others", "pattern", "covered"),
    [
        (["orders"], "orders", True),
        (["orders"], "order?", False),
        (["?", "??*"], "*", True),
        (["a*", "*b"], "a*b", True),
        (["*a*"], "*ab*a", True),
        ([], "a", False),
        (["[ab]"], "a", False),
    ],
)
def test_several_patterns_may_cover_one_together(others: list[str], pattern: str, covered: bool) -> None:
    assert covers(others, pattern) is covered


def test_a_pattern_with_too_many_states_counts_as_not_covered() -> None:
    many = "*a" + "?" * 20 + "*b" + "?" * 20
    assert not covers([many], many)


@pytest.mark.parametrize(
    ("text", "rank", "exact"),
    [("shop.orders", 0, True), ("orders", 1, True), ("shop.*", 2, False), ("*.orders", 2, False), ("o?", 2, False)],
)
def test_whole_names_are_asked_before_patterns(text: str, rank: int, exact: bool) -> None:
    pattern = TablePattern.parse(text)
    assert (pattern.rank, pattern.exact) == (rank, exact)


def test_a_bare_name_is_meant_in_each_database_and_brackets_are_letters() -> None:
    assert TablePattern.parse("orders").matches("any", "orders")
    assert not TablePattern.parse("orders").matches("any", "Orders")
    assert TablePattern.parse("a[b]*").matches("any", "a[b]c")
    assert not TablePattern.parse("a[b]*").matches("any", "ab")


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", " a", "a .b", "a\0"])
def test_what_is_no_tables_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a table's name"):
        TablePattern.parse(text)
