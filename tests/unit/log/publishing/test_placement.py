"""A topic that has grown is known by where its keys lie."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.errors import Terminal
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.publishing.placement import former_numbers, require_ungrown
from include.record.key import partition_of

NUMBERS = st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True).map(sorted)
KEYS = st.sets(st.binary(min_size=1, max_size=12), max_size=200)


@given(st.integers(1, 60), KEYS)
def test_keys_where_they_belong_say_nothing(partitions: int, keys: set[bytes]) -> None:
    assert former_numbers([(key, partition_of(key, partitions)) for key in keys], partitions) == ()


@given(NUMBERS, st.randoms(use_true_random=False))
def test_any_growth_that_left_keys_behind_is_seen(numbers: list[int], rng: random.Random) -> None:
    keys = [b"%d" % number for number in range(400)]
    *before, now = numbers
    placed = [(key, partition_of(key, rng.choice(numbers))) for key in keys]
    assert bool(former_numbers(placed, now)) == bool(before)


@pytest.mark.parametrize("partitions", [5, 8, 40])
def test_keys_placed_by_another_rule_are_not_taken_for_growth(partitions: int) -> None:
    rng = random.Random(partitions)
    placed = [(b"%d" % number, rng.randrange(partitions)) for number in range(500)]
    assert former_numbers(placed, partitions) == ()


def test_a_topic_that_grew_is_refused_by_name_with_the_way_out() -> None:
    log = MemoryLog()
    log.admin().ensure(TopicSpec("orders", 4))
    writer = log.writer("w")

    def write(numbers: range, partitions: int) -> None:
        writer.begin()
        for number in numbers:
            key = b"%d" % number
            writer.append("orders", key, b"v", partition=partition_of(key, partitions))
        writer.commit()

    write(range(100), 4)
    require_ungrown("orders", log.reader())
    log.grow("orders", 6)
    write(range(100, 200), 6)
    with pytest.raises(Terminal, match=r"has grown.*written anew") as refused:
        require_ungrown("orders", log.reader())
    assert (refused.value.details["topic"], refused.value.details["partitions"], refused.value.details["before"]) == (
        "orders",
        6,
        4,
    )
