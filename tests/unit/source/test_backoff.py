"""Pauses between tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.source.backoff import next_pause


@given(st.floats(0, 100), st.floats(0.01, 1), st.floats(1, 60), st.floats(0, 1))
def test_a_pause_lies_between_the_shortest_and_the_longest(
    last: float, shortest: float, longest: float, at: float
) -> None:
    pause = next_pause(last, shortest, longest, lambda low, high: low + (high - low) * at)
    assert shortest <= pause <= longest


def test_pauses_grow_at_most_threefold_and_end_at_the_longest() -> None:
    pauses = [0.0]
    while len(pauses) < 5:
        pauses.append(next_pause(pauses[-1], 0.5, 5.0, lambda _low, high: high))
    assert pauses[1:] == [0.5, 1.5, 4.5, 5.0]


def test_a_pause_may_be_as_short_as_the_first_again() -> None:
    assert next_pause(4.5, 0.5, 5.0, lambda low, _high: low) == 0.5
