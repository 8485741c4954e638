from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from include.audit.search.bisect import Bisection, bisect
from include.audit.search.views.key_list import ListedKeys
from include.audit.search.views.key_range import KeySlice
from tests.support.search.listed_view import ListedView

KEYS = [f"{n:07}" for n in range(20_000)]


def run(keys: Sequence[str], ids: Sequence[str] | set[str]) -> tuple[Bisection, ListedView]:
    view = ListedView(ids)
    return bisect(ListedKeys(keys), view), view


def test_equal_sides_are_clean_after_two_requests() -> None:
    found, view = run(KEYS, KEYS)
    assert (found.missing, found.extra, view.requests) == ([], [], 2)


def test_missing_keys_are_found_by_key_with_few_requests_and_few_ids() -> None:
    gone = set(KEYS[7::3001])
    found, view = run(KEYS, set(KEYS) - gone)
    assert found.missing == sorted(gone)
    assert found.extra == []
    assert view.requests <= 4
    assert found.listed < 1000


def test_extra_keys_are_found_between_beyond_and_among_the_expected() -> None:
    extra = {"", "0000003x", "zzz"}
    found, _ = run(KEYS, set(KEYS) | extra)
    assert (found.missing, found.extra) == ([], sorted(extra))


def test_an_empty_index_lacks_all_and_is_asked_once() -> None:
    found, view = run(KEYS, [])
    assert (found.missing, view.requests) == (KEYS, 1)


def test_nothing_expected_makes_everything_extra_however_much_it_is() -> None:
    ids = [f"{n:07}" for n in range(25_001)]
    found, _ = run([], ids)
    assert found.extra == ids
    found, _ = run(["0000005"], ids)
    assert len(found.extra) == 25_000
    assert found.missing == []


def test_a_missing_and_an_extra_key_in_one_range_cancel_and_are_not_seen() -> None:
    # The blind spot of an audit by counts; the digest of a later audit sees it.
    span = len(KEYS) // 256
    index = (set(KEYS) - {KEYS[span // 2]}) | {KEYS[span // 2] + "x"}
    found, _ = run(KEYS, index)
    assert (found.missing, found.extra) == ([], [])


def test_where_pairs_do_not_cancel_both_sides_are_found() -> None:
    index = (set(KEYS) - {KEYS[5], KEYS[6]}) | {KEYS[5] + "x"}
    found, _ = run(KEYS, index)
    assert (found.missing, found.extra) == ([KEYS[5], KEYS[6]], [KEYS[5] + "x"])


names = st.text("ab\0ü\U0001f600", max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    st.sets(names, max_size=40), st.sets(names, max_size=40), st.integers(1, 8), st.integers(1, 4), st.integers(2, 4)
)
def test_what_is_found_is_a_part_of_the_true_difference_and_all_of_it_unless_pairs_cancel(
    expected: set[str], indexed: set[str], first_fanout: int, leaf: int, fanout: int
) -> None:
    keys = sorted(expected)
    found = bisect(ListedKeys(keys), ListedView(indexed), first_fanout=first_fanout, fanout=fanout, leaf=leaf)
    missing, extra = expected - indexed, indexed - expected
    assert set(found.missing) <= missing
    assert set(found.extra) <= extra
    assert len(set(found.missing)) == len(found.missing)
    # What is not seen cancels exactly.
    assert len(missing) - len(found.missing) == len(extra) - len(found.extra)
    if not extra or not missing:
        assert (set(found.missing), set(found.extra)) == (missing, extra)


@given(st.lists(names, unique=True, min_size=1, max_size=30), st.integers(1, 12))
def test_slices_of_a_split_are_the_whole_and_their_ranges_tile_it(keys: list[str], parts: int) -> None:
    keys.sort()
    whole = KeySlice.all_of(len(keys))
    marks = whole.marks(parts)
    slices = whole.split(marks, ListedKeys(keys).at(marks[1:-1]))
    assert [k for one in slices for k in keys[one.first : one.last]] == keys
    assert (slices[0].range.low, slices[-1].range.high) == (None, None)
    assert all(a.range.high == b.range.low for a, b in itertools.pairwise(slices))
    for one in slices:
        assert list(one.range.of(keys)) == keys[one.first : one.last]
        assert all(key in one.range for key in keys[one.first : one.last])
