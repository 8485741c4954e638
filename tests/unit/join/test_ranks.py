"""Ranks of input records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.join.algorithm.ranks import Ranks

pytestmark = pytest.mark.unit

RANGES = st.dictionaries(
    st.tuples(st.sampled_from(["control", "a", "b"]), st.integers(0, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 20)),
    max_size=8,
)


@given(RANGES, st.integers(0, 1000))
def test_every_offset_of_a_batch_has_a_rank_of_its_own_in_the_order_of_the_topics(
    ranges: dict[tuple[str, int], tuple[int, int]], base: int
) -> None:
    start = {at: first for at, (first, _) in ranges.items()}
    ends = {at: first + count for at, (first, count) in ranges.items()}
    ranks = Ranks.of(["control", "a", "b"], start, ends, base)
    order = ["control", "a", "b"]
    records = sorted(
        ((order.index(topic), partition, offset), ranks.slice_base((topic, partition), start) + offset)
        for (topic, partition), (first, count) in ranges.items()
        for offset in range(first, first + count)
    )
    assert [rank for _, rank in records] == list(range(base, ranks.next))
    for (topic, partition, offset), rank in records:
        assert ranks.place_of(rank, start) == ((order[topic], partition), offset)


def test_topics_that_are_no_input_have_no_rank() -> None:
    ranks = Ranks.of(["a"], {}, {("a", 0): 3, ("a.resolved", 0): 9}, 100)
    assert (ranks.first, ranks.next) == ({("a", 0): 100}, 103)
