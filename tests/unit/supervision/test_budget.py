"""The restart budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervision.budget import CrashLoop, Restart, RestartBudget

S = 1_000_000


def test_restarts_are_granted_until_the_window_is_full() -> None:
    budget, history = RestartBudget(most=2, window_s=60), list[int]()
    answers = []
    for at in (0, 10 * S, 20 * S):
        granted, history = budget.spend(history, at)
        answers.append(granted)
    assert answers == [True, True, False]


def test_a_refused_restart_is_not_counted() -> None:
    granted, history = RestartBudget(most=1, window_s=60).spend([5 * S], 10 * S)
    assert (granted, history) == (False, [5 * S])


def test_a_restart_leaves_the_window_by_time_alone() -> None:
    granted, history = RestartBudget(most=1, window_s=60).spend([0], 60 * S)
    assert (granted, history) == (True, [60 * S])


def test_a_budget_of_none_grants_none() -> None:
    assert RestartBudget(most=0, window_s=60).spend([], 0) == (False, [])


def test_a_clock_that_went_back_grants_no_more_than_before() -> None:
    assert RestartBudget(most=1, window_s=60).spend([100 * S], 10 * S) == (False, [100 * S])


SLOWLY = RestartBudget(most=1, window_s=60, then_every_s=100)
IS_DOWN = CrashLoop(since_us=20 * S, next_us=120 * S, well_after_s=60)


def crash(
    history: list[int], now_s: int, *, down: CrashLoop | None = None, ran_s: int = 0, budget: RestartBudget = SLOWLY
) -> Restart:
    return budget.after_crash(history, now_s * S, down=down, ran_us=ran_s * S, idle_us=0)


def test_a_crash_within_the_budget_is_followed_by_a_start_at_once() -> None:
    assert crash([], 10) == Restart(10 * S, [10 * S])


def test_where_the_budget_does_not_help_it_is_tried_again_slowly() -> None:
    assert crash([10 * S], 20, ran_s=5) == Restart(120 * S, [10 * S], IS_DOWN)


def test_what_is_down_gets_no_new_budget_by_waiting_and_stays_down_since_then() -> None:
    assert crash([10 * S], 170, down=IS_DOWN, ran_s=50) == Restart(270 * S, [10 * S], CrashLoop(20 * S, 270 * S, 60))


def test_what_was_down_and_ran_for_the_window_is_well_and_has_its_budget_again() -> None:
    assert crash([10 * S], 180, down=IS_DOWN, ran_s=60) == Restart(180 * S, [180 * S])


def test_a_budget_without_slow_tries_ends_where_it_does_not_help() -> None:
    budget = RestartBudget(most=1, window_s=60)
    assert crash([10 * S], 20, budget=budget) == Restart(None, [10 * S])
    assert crash([10 * S], 20, down=IS_DOWN, budget=budget) == Restart(None, [10 * S])


SHIPPED = RestartBudget(5, 600, 600)


def lives(ran_s: int, idle_s: int, number: int) -> list[Restart]:
    """What follows each crash of generations that all run and then hang for so long."""
    found: list[Restart] = []
    for n in range(1, number + 1):
        history, down = (found[-1].history, found[-1].down) if found else ([], None)
        now_us = n * (ran_s + idle_s) * S
        found.append(SHIPPED.after_crash(history, now_us, down=down, ran_us=ran_s * S, idle_us=idle_s * S))
    return found


@given(st.integers(0, 100), st.integers(0, 10_000))
def test_one_that_does_little_between_crashes_is_down_however_long_it_hangs(ran_s: int, idle_s: int) -> None:
    assert [each.down is not None for each in lives(ran_s, idle_s, 6)] == [False] * 5 + [True]


@given(st.integers(120, 2000), st.integers(0, 10_000))
def test_one_that_runs_for_long_between_crashes_is_never_down(ran_s: int, idle_s: int) -> None:
    assert [each.down for each in lives(ran_s, idle_s, 20)] == [None] * 20


def test_what_was_down_and_is_well_has_its_whole_budget_again() -> None:
    before = lives(0, 20, 6)[-1]
    assert before.down is not None
    # It waited for ten minutes, ran for as long, and crashes.
    now_us = before.down.next_us + 605 * S
    again = SHIPPED.after_crash(before.history, now_us, down=before.down, ran_us=605 * S, idle_us=400 * S)
    assert again == Restart(now_us, [now_us])


@given(st.lists(st.integers(0, 10_000 * S), max_size=60), st.integers(0, 5), st.integers(1, 1000))
def test_no_window_ever_holds_more_restarts_than_the_budget(asked: list[int], most: int, window_s: int) -> None:
    budget, history, granted_at = RestartBudget(most, window_s), list[int](), list[int]()
    for at in sorted(asked):
        granted, history = budget.spend(history, at)
        if granted:
            granted_at.append(at)
    for at in granted_at:
        assert sum(at - window_s * S < other <= at for other in granted_at) <= most
