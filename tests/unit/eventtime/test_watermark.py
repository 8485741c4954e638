"""The watermark of a partition, of all together, and what is decided of partitions that bring nothing."""

from __future__ import annotations

import pytest

from include.eventtime.algorithm.watermark import (
    NEVER,
    IdleVerdict,
    PartitionWatermark,
    joining,
    least,
    quiet,
    resolved,
)

pytestmark = pytest.mark.unit

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_an_element_just_the_bound_behind_is_on_time_and_one_more_is_late() -> None:
    watermark = PartitionWatermark(NEVER, 5)
    assert not watermark.late(0, 100)
    assert watermark.low == 94
    assert not watermark.late(1, 95)
    assert watermark.late(2, 94)
    assert watermark.low == 94


def test_without_a_bound_nothing_is_late() -> None:
    watermark = PartitionWatermark(NEVER, None)
    assert not any(watermark.late(offset, time) for offset, time in enumerate((100, 1, 50)))
    assert watermark.low == NEVER


def test_verdicts_apply_before_the_record_at_their_offset() -> None:
    watermark = PartitionWatermark(NEVER, 0, [IdleVerdict(A, 3, 50), IdleVerdict(A, 7, 40), IdleVerdict(A, 9, 90)])
    assert not watermark.late(2, 10)
    assert watermark.late(3, 50)
    assert not watermark.late(7, 51)
    watermark.reach(8)
    assert watermark.low == 50
    watermark.reach(9)
    assert watermark.low == 90


def test_all_together_have_the_least_watermark() -> None:
    assert least([3, 1, 2]) == 1
    assert least([]) == NEVER


def test_a_quiet_partition_follows_the_slowest_active_one_once_it_is_far_enough_behind() -> None:
    lows, ends = {A: 100, B: 50, C: 120}, {A: 9, B: 4, C: 7}
    assert quiet(lows, ends, [A, C], dict.fromkeys(lows, 49)) == [IdleVerdict(B, 4, 100)]
    assert quiet(lows, ends, [A, C], dict.fromkeys(lows, 50)) == []
    assert quiet(lows, ends, [B], dict.fromkeys(lows, 0)) == []
    # Those of a captured table do not follow others.
    assert quiet(lows, ends, [A, C], {A: 0, C: 0}) == []


def test_a_partition_that_never_had_an_element_follows_at_once() -> None:
    assert quiet({A: 100, B: NEVER}, {A: 9, B: 0}, [A], {B: 1_000}) == [IdleVerdict(B, 0, 100)]


def test_when_all_are_quiet_the_watermark_stands() -> None:
    assert quiet({A: 100, B: 50}, {A: 9, B: 4}, [], {A: 0, B: 0}) == []


def test_captured_tables_follow_what_their_source_is_complete_to() -> None:
    lows, ends = {A: 100, B: 50}, {A: 9, B: 4}
    assert resolved({A: 100, B: 100}, lows, ends, {A: 0, B: 10}) == [IdleVerdict(B, 4, 89)]


def test_a_partition_that_joins_begins_at_the_watermark() -> None:
    assert joining([(B, 0), (A, 3)], 70) == [IdleVerdict(A, 3, 70), IdleVerdict(B, 0, 70)]
    assert joining([(A, 0)], NEVER) == []
