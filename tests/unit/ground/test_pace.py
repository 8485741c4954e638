"""Waits between tries, and rates."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock, SystemClock
from include.pace import Backoff, TokenBucket, doubled_s

NO_LIMIT = 10**9


def test_waits_double_up_to_the_cap_and_begin_anew_after_a_reset() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert [backoff.next_s(), backoff.next_s()] == [0.5, 1.0]


def test_a_lower_cap_holds_for_one_wait_which_the_next_one_grows_from() -> None:
    backoff = Backoff(0.5, 60.0)
    assert [backoff.next_s(longest_s) for longest_s in (60, 60, 60, 1.5, 60)] == [0.5, 1.0, 2.0, 1.5, 3.0]


@given(st.integers(1, 10_000), st.floats(0.001, 10), st.floats(10, 100))
def test_a_count_of_failures_tells_the_same_waits(failures: int, first_s: float, longest_s: float) -> None:
    backoff = Backoff(first_s, longest_s)
    waits = [backoff.next_s() for _ in range(min(failures, 80))]
    assert doubled_s(failures, first_s, longest_s) == pytest.approx(waits[-1])


@given(st.floats(0.01, 1), st.floats(1, 60), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_jittered_waits_lie_between_the_first_and_the_cap_and_at_most_triple(
    first_s: float, longest_s: float, draws: list[float]
) -> None:
    left = iter(draws)
    backoff = Backoff(first_s, longest_s, lambda low, high: low + (high - low) * next(left))
    last_s = first_s
    for _ in draws:
        wait_s = backoff.next_s()
        assert first_s <= wait_s <= min(longest_s, 3 * last_s) * (1 + 1e-9)
        last_s = wait_s


def test_jittered_waits_may_be_as_short_as_the_first_again() -> None:
    draws = iter([1, 1, 0])
    backoff = Backoff(0.5, 60, lambda low, high: high if next(draws) else low)
    assert [backoff.next_s() for _ in range(3)] == [1.5, 4.5, 0.5]


@given(
    st.floats(10, 1000),
    st.floats(0, 3),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 5)), min_size=1, max_size=12),
)
def test_no_window_has_more_than_the_rate_the_burst_and_what_was_taken_first(
    per_s: float, burst_s: float, full: bool, takes: list[tuple[int, float]]
) -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_s, clock, burst_s=burst_s, full=full)
    taken: list[tuple[float, int]] = []
    for units, rest_s in takes:
        clock.advance(rest_s)
        taken.append((clock.monotonic_s(), units))
        bucket.pay(units)
    for first, (from_s, _) in enumerate(taken):
        in_window = 0
        for until_s, units in taken[first:]:
            assert in_window <= per_s * (until_s - from_s + burst_s) + 1e-4 * per_s + 1e-6
            in_window += units


@given(st.floats(0.1, 100), st.lists(st.floats(0, 2), max_size=50))
def test_what_is_there_may_be_taken_and_nothing_else(per_s: float, rests: list[float]) -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_s, clock, burst_s=max(1, 1 / per_s), full=True)
    there = most = max(1.0, per_s)
    for rest_s in rests:
        before_s = clock.monotonic_s()
        clock.advance(rest_s)
        there = min(most, there + (clock.monotonic_s() - before_s) * per_s)
        took = bucket.try_take()
        if abs(there - 1) > 1e-3:
            assert took == (there >= 1)
        there -= took


def test_a_rate_is_kept_in_the_long_run_and_a_rest_saves_a_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(2, clock, burst_s=1, full=True)
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]
    taken = 0
    for _ in range(100):
        clock.advance(0.1)
        taken += bucket.try_take()
    assert taken == 20


def test_a_bucket_that_is_not_full_saves_up_from_its_begin_on() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, clock, burst_s=1)
    assert not bucket.try_take()
    clock.advance(5)
    assert [bucket.try_take(10), bucket.try_take()] == [True, False]


def test_more_than_is_there_is_owed_and_a_stop_ends_the_wait_for_it() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, clock)
    assert bucket.take(100) == 10
    bucket.pay(10, lambda: clock.monotonic_s() >= 2)
    assert clock.monotonic_s() == pytest.approx(2, abs=0.11)
    assert bucket.owed_s() == pytest.approx(11 - clock.monotonic_s())


def test_whoever_takes_nothing_waits_for_nobody() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, clock)
    bucket.take(100)
    bucket.pay(0)
    assert clock.monotonic_s() == 0


def test_without_a_rate_nothing_waits() -> None:
    clock = ManualClock()
    bucket = TokenBucket(0, clock)
    bucket.pay(NO_LIMIT)
    assert (bucket.try_take(NO_LIMIT), bucket.owed_s(), clock.monotonic_s()) == (True, 0, 0)


def test_threads_share_one_rate() -> None:
    bucket = TokenBucket(1e-6, SystemClock(), burst_s=100 * 1e6, full=True)
    taken: list[int] = []
    threads = [
        threading.Thread(target=lambda: taken.append(sum(bucket.try_take() for _ in range(50)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 100
