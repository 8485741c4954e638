"""A backlog whose partitions hold unequal numbers of elements: what is buffered is bounded by a slice and the bound."""

from __future__ import annotations

import orjson
import pytest

from include.eventtime.algorithm.watermark import NEVER
from tests.unit.eventtime.driver_harness import JobDriverHarness, Process

pytestmark = pytest.mark.unit
SECOND = 1_000_000
SLICE_S, DISORDER_S, LENGTH_S = 20, 5, 200
FAST = 100
"""Elements a second of one partition, while the other has one; half-way they change places."""


class Backlog(JobDriverHarness):
    def __init__(self) -> None:
        super().__init__(1)
        self.clock.sleep(100_000)
        (self.topic, *_), self.waiting = self.history.topics, {}
        self.log.grow(self.topic, 2)
        sources = [self.job.entry.sources[0].model_copy(update={"disorder_s": DISORDER_S, "idle_after_s": 1e6})]
        object.__setattr__(self.job, "entry", self.job.entry.model_copy(update={"sources": sources}))
        self.writer.begin()
        for second in range(LENGTH_S):
            fast = int(second >= LENGTH_S // 2)
            for number in range(FAST):
                self._element(fast, second * SECOND + number * SECOND // FAST)
            self._element(1 - fast, second * SECOND)
        self.writer.commit()

    def _element(self, partition: int, time: int) -> None:
        value = orjson.dumps({"key": "a", "time": time, "timer": "x", "after": None, "fails": None})
        self.writer.append(self.topic, None, value, partition=partition, timestamp_ms=time // 1_000)


def test_a_hundred_to_one_no_more_is_buffered_than_a_slice_and_the_bound_hold() -> None:
    world = Backlog()
    most = (FAST + 1) * (SLICE_S + DISORDER_S + 1)
    sliced, whole = _buffered(Process(world, slice_s=SLICE_S)), _buffered(Process(Backlog(), total_limit=2_000))
    assert len(sliced) > 5
    assert 0 < max(sliced) <= most
    # A slice is gone in parts where a batch may not have all of it.
    assert 0 < max(_buffered(Process(Backlog(), slice_s=SLICE_S, total_limit=500))) <= most
    # Without slices one partition runs ahead, and all that it brings waits for the other.
    assert max(whole) > 3 * most


def _buffered(process: Process) -> list[int]:
    found = []
    while (latest := process.planner.latest(process.at)) != process.at:
        process.at = latest
        process.runner.run(process.carry_out, latest.plan())
        assert process.runner.committed.watermark > NEVER
        found.append(process.runner.committed.counts()["buffered"])
    return found
