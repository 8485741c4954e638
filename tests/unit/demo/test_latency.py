from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.latency import Latencies, percentile


def test_a_row_counts_from_its_commit_to_the_search_that_shows_it() -> None:
    latencies = Latencies()
    latencies.committed(7, 20, committed_us=1_000_000)
    latencies.seen([(7, 20)], at_us=1_750_000)
    assert latencies.seconds() == [0.75]
    assert latencies.waiting() == 0


def test_an_older_row_of_the_order_does_not_count_as_seen() -> None:
    latencies = Latencies()
    latencies.committed(7, 20, committed_us=0)
    latencies.seen([(7, 19)], at_us=500_000)
    assert latencies.seconds() == []
    assert latencies.awaited(10) == [7]


def test_a_later_row_shows_every_row_before_it() -> None:
    latencies = Latencies()
    latencies.committed(7, 20, committed_us=0)
    latencies.committed(7, 21, committed_us=1_000_000)
    latencies.committed(7, 22, committed_us=1_500_000)
    latencies.seen([(7, 21)], at_us=2_000_000)
    assert latencies.seconds() == [2.0, 1.0]
    assert latencies.waiting() == 1


def test_the_longest_awaited_order_is_asked_for_first() -> None:
    latencies = Latencies()
    latencies.committed(2, 5, committed_us=30)
    latencies.committed(1, 4, committed_us=10)
    latencies.committed(3, 6, committed_us=20)
    assert latencies.awaited(2) == [1, 3]


def test_no_values_have_no_percentile() -> None:
    assert percentile([], 0.5) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values) - 1e-6


def test_percentiles_of_a_hundred_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == pytest.approx((50, 99))
