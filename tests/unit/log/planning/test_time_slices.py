"""Partitions of unequal length are read side by side in time."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.log.memory import MemoryLog
from include.log.planning import time_slices
from include.log.planning.plan import StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.ports import TopicSpec

pytestmark = pytest.mark.unit

MINUTE_MS = 60_000
BEGIN_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "_FEW", 3)


def planned(times_ms: list[list[int]], slice_s: float = 60.0, total_limit: int | None = None) -> list[list[list[int]]]:
    """For each batch the timestamps that it reads of each partition, as minutes since the begin."""
    clock = ManualClock((BEGIN_MS + 1_000 * MINUTE_MS) * 1_000)
    log = MemoryLog(clock)
    log.admin().ensure(TopicSpec("t", len(times_ms)))
    writer = log.writer("w")
    writer.begin()
    for partition, times in enumerate(times_ms):
        for time_ms in times:
            writer.append("t", None, b"", partition=partition, timestamp_ms=time_ms)
    writer.commit()
    reader = log.reader()
    spec = StreamSpec("-", ("t",), slice_s=slice_s, total_limit=total_limit)
    planner, at = BatchPlanner(spec, PortSurvey(reader, log.admin()), [], clock), spec.initial()
    found = []
    while (after := planner.latest(at)) != at:
        at, plan = after, after.plan()
        ranges = [(plan.start.get(("t", p), 0), plan.ends["t", p]) for p in range(len(times_ms))]
        read = [[r.timestamp_ms for r in reader.read("t", p, *each)] for p, each in enumerate(ranges)]
        found.append([[(time - BEGIN_MS) // MINUTE_MS for time in times] for times in read])
    return found


def minutes(*each: float) -> list[int]:
    # A slice begins twenty seconds before the first minute.
    return [round(BEGIN_MS + minute * MINUTE_MS) for minute in each]


def test_a_long_and_a_short_partition_are_through_with_each_slice_together() -> None:
    batches = planned([minutes(*(n / 10 for n in range(60))), minutes(0, 2, 4)])
    assert len(batches) == 7
    for number, (long, short) in enumerate(batches):
        assert max(long, default=0) <= number
        assert all(abs(minute - number) <= 1 for minute in short)
    assert sum(len(long) for long, _ in batches) == 60


def test_hours_without_a_record_are_jumped_over() -> None:
    batches = planned([minutes(0, 0.1, 0.2, 300, 300.1, 300.2), minutes(0.1, 300.1, 900)])
    assert [[len(times) for times in batch] for batch in batches] == [[3, 1], [3, 1], [0, 1]]


def test_what_is_left_in_the_end_is_read_as_it_is() -> None:
    assert planned([minutes(5, 9)]) == [[[5, 9]]]


def test_a_slice_of_more_records_than_a_batch_may_have_is_gone_in_parts() -> None:
    batches = planned([minutes(*(0.001 * n for n in range(10))), minutes(0, 1, 2, 3)], total_limit=4)
    assert all(sum(map(len, batch)) <= 4 for batch in batches)
    assert sum(len(times) for batch in batches for times in batch) == 14


def test_timestamps_beyond_now_and_out_of_order_hold_nothing_up() -> None:
    batches = planned([minutes(5000, 1, 5001, 2, 0), minutes(3, 1, 2)])
    assert sum(len(times) for batch in batches for times in batch) == 8
