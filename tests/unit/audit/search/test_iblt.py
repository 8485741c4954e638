"""What two sides differ in comes out of sums, whatever the mixture of signs, and chance is found out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.audit.search.iblt import add_up, differences, peel
from include.index.digest import BUCKET_BITS, VIEWS, bucket

STATES = st.integers(0, 2**64 - 1)


def states(count: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.getrandbits(64) for _ in range(count)]


def peeled(one: list[int], other: list[int], bits: int) -> tuple[list[int], list[int], bool]:
    found = peel(differences(add_up(one, bits), add_up(other, bits)), bits)
    return sorted(found.more), sorted(found.less), found.whole


@settings(max_examples=300)
@given(st.sets(STATES, max_size=60), st.sets(STATES, max_size=60), st.sets(STATES, max_size=40))
def test_the_differences_of_any_two_sets_come_out_with_their_signs(
    one: set[int], other: set[int], both: set[int]
) -> None:
    more, less = one - other - both, other - one - both
    assert peeled([*more, *both], [*less, *both], 16) == (sorted(more), sorted(less), True)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 40))
def test_what_comes_out_of_full_buckets_is_true_or_the_rest_says_so(seed: int, more: int, less: int) -> None:
    # 64 buckets hold about 38 states: up to 80 are planted.
    one, other = states(more, seed), states(less, seed + 1)
    found = peel(differences(add_up(one, 6), add_up(other, 6)), 6)
    truth = (set(one), set(other))
    if found.whole and set(found.more) <= truth[0] and set(found.less) <= truth[1]:
        assert (set(found.more), set(found.less)) == truth
    # Whatever came out, together with the rest it is the difference.
    for view in range(len(VIEWS)):
        count = len(found.more) - len(found.less) + sum(c for c, _ in found.rest[view].values())
        total = sum(found.more) - sum(found.less) + sum(t for _, t in found.rest[view].values())
        assert (count, total) == (more - less, sum(one) - sum(other))


@pytest.mark.parametrize("count", [300, 5_000])
def test_five_thousand_differences_come_out_of_16384_buckets(count: int) -> None:
    found = states(count, count)
    one, other = found[::2], found[1::2]
    assert peeled(one, other, 14) == (sorted(one), sorted(other), True)


def test_ten_thousand_planted_sets_of_mixed_signs_come_out_exactly_or_ask_for_finer_buckets() -> None:
    chance = random.Random(7)
    finer = 0
    for _ in range(10_000):
        found = [chance.getrandbits(64) for _ in range(chance.randrange(12))]
        cut = chance.randrange(len(found) + 1)
        truth = (sorted(found[:cut]), sorted(found[cut:]), True)
        told = peeled(found[:cut], found[cut:], 8)
        if not told[2]:
            # Two states that share their buckets in both views.
            finer += 1
            told = peeled(found[:cut], found[cut:], 14)
        assert told == truth
    assert finer < 50


def test_states_of_one_bucket_with_both_signs_cancel_in_count_and_still_come_out() -> None:
    # +a and -b share a bucket of view 0: its count is 0, its sum is not.
    a, *others = states(2_000, 3)
    b = next(s for s in others if bucket(s, 0) >> (BUCKET_BITS - 8) == bucket(a, 0) >> (BUCKET_BITS - 8))
    assert peeled([a], [b], 8) == ([a], [b], True)


def test_a_bucket_of_several_that_looks_like_one_is_not_taken_for_it() -> None:
    # Three states, a + b - c: count 1, and the sum is a number that belongs to another bucket.
    found = [s for s in states(20_000, 5) if bucket(s, 0) >> (BUCKET_BITS - 4) == 3][:3]
    cells = differences(add_up(found[:2], 4), add_up(found[2:], 4))
    assert cells[0][3][0] == 1
    told = peel((cells[0], {}), 4)
    assert (told.more, told.less, told.whole) == ([], [], False)


def test_a_state_that_came_out_by_chance_is_left_in_when_it_is_refused() -> None:
    one = states(3, 9)
    cells = differences(add_up(one, 8), add_up([], 8))
    assert sorted(peel(cells, 8).more) == sorted(one)
    again = peel(cells, 8, refused={one[0]})
    assert sorted(again.more) == sorted(one[1:])
    assert not again.whole


def test_a_state_that_one_side_has_twice_is_left_to_be_listed() -> None:
    (twice,) = states(1, 11)
    found = peel(differences(add_up([twice], 8), add_up([twice, twice, twice], 8)), 8)
    assert not found.whole
    assert peeled([twice], [twice, twice], 8) == ([], [twice], True)


def test_equal_sides_leave_nothing_and_order_does_not_matter() -> None:
    found = states(1_000, 13)
    assert differences(add_up(found, 14), add_up(reversed(found), 14)) == ({}, {})
