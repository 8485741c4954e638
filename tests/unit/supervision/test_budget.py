"""The restart budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervision.budget import RestartBudget

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


@given(st.lists(st.integers(0, 10_000 * S), max_size=60), st.integers(0, 5), st.integers(1, 1000))
def test_no_window_ever_holds_more_restarts_than_the_budget(asked: list[int], most: int, window_s: int) -> None:
    budget, history, granted_at = RestartBudget(most, window_s), list[int](), list[int]()
    for at in sorted(asked):
        granted, history = budget.spend(history, at)
        if granted:
            granted_at.append(at)
    for at in granted_at:
        assert sum(at - window_s * S < other <= at for other in granted_at) <= most
