"""Ranges worked off by many tasks, settled in order: nothing is left out, whatever is slow, lost or away."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.index.generations.rebuild.fill import FillAnswer, fill
from include.index.generations.rebuild.pace import Pace
from include.index.generations.rebuild.ranges import ranges_of, size_of
from include.index.outcome import TaskOutcome
from include.log.planning.slices import Slice


class ScriptedPool:
    """Finishes ranges in a random order; `faults` says what becomes of a range's first tries."""

    together = 1

    def __init__(self, slots: int, seed: int, faults: dict[int, list[FillAnswer]] | None = None) -> None:
        self.slots = slots
        self.running: list[int] = []
        self.most_running = 0
        self.furthest = 0
        self.tries: dict[int, int] = {}
        self._random = random.Random(seed)
        self._faults = faults or {}

    def submit(self, *tasks: tuple[int, Slice]) -> None:
        ((number, _),) = tasks
        self.running.append(number)
        self.most_running = max(self.most_running, len(self.running))
        self.furthest = max(self.furthest, number - min(self.running))

    def finished(self) -> list[tuple[int, FillAnswer]]:
        if not self.running or self._random.random() < 0.3:
            return []
        number = self.running.pop(self._random.randrange(len(self.running)))
        self.tries[number] = self.tries.get(number, 0) + 1
        scripted = self._faults.get(number, [])
        return [(number, scripted.pop(0) if scripted else TaskOutcome())]

    def close(self) -> None:
        self.running.clear()


def run(ranges: list[Slice], pool: ScriptedPool) -> tuple[list[Slice], list[str]]:
    settled: list[Slice] = []
    told: list[str] = []
    fill(ranges, pool, lambda part, _: settled.append(part), ManualClock(), told.append)
    return settled, told


WORK = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 80)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=5,
)


@given(work=WORK, most=st.integers(1, 30))
def test_ranges_cover_each_offset_once_and_those_of_a_partition_are_in_order(
    work: dict[tuple[str, int], tuple[int, int]], most: int
) -> None:
    ranges = ranges_of(work, most)
    assert sum(each.size for each in ranges) == size_of(work)
    for (topic, partition), (start, end) in work.items():
        own = [each for each in ranges if (each.topic, each.partition) == (topic, partition)]
        assert [offset for each in own for offset in range(each.start, each.end)] == list(range(start, end))
    assert all(1 <= each.size <= most for each in ranges)


def test_partitions_take_turns_so_that_all_end_together() -> None:
    ranges = ranges_of({("t", 0): (0, 100), ("t", 1): (0, 1000)}, 100)
    assert [each.partition for each in ranges] == [0, *[1] * 10]
    ranges = ranges_of({("t", 0): (0, 200), ("t", 1): (0, 400)}, 100)
    assert [each.partition for each in ranges] == [0, 1, 1, 0, 1, 1]


@given(count=st.integers(0, 40), slots=st.integers(1, 8), seed=st.integers(0, 1000))
def test_ranges_are_settled_once_and_in_order_whatever_finishes_first(count: int, slots: int, seed: int) -> None:
    ranges = [Slice("t", 0, n, n + 1) for n in range(count)]
    pool = ScriptedPool(slots, seed)
    assert run(ranges, pool)[0] == ranges
    assert pool.most_running <= slots + 1
    assert pool.furthest < slots * 4


def test_a_range_whose_server_is_full_or_whose_task_is_lost_is_worked_off_again() -> None:
    ranges = [Slice("t", 0, n, n + 1) for n in range(5)]
    full = TaskOutcome(waiting=True, reason="429")
    pool = ScriptedPool(2, 1, {1: [full, full], 3: [Transient("a task was lost", system="spark")]})
    settled, told = run(ranges, pool)
    assert settled == ranges
    assert [pool.tries[n] for n in range(5)] == [1, 3, 1, 2, 1]
    assert told.count("429") == 2
    assert any("a task was lost" in each for each in told)


def test_a_fault_ends_the_work_with_nothing_settled_behind_it() -> None:
    ranges = [Slice("t", 0, n, n + 1) for n in range(5)]
    settled: list[Slice] = []
    pool = ScriptedPool(2, 1, {2: [TaskOutcome(fault=Terminal("index cannot be written"))]})
    with pytest.raises(Terminal, match="cannot be written"):
        fill(ranges, pool, lambda part, _: settled.append(part), ManualClock(), lambda _: None)
    assert settled == ranges[: len(settled)]
    assert len(settled) <= 2


def test_tasks_that_are_lost_time_and_again_end_the_work() -> None:
    pool = ScriptedPool(1, 1, {0: [Transient("a task was lost")] * 20})
    with pytest.raises(Transient, match="lost"):
        run([Slice("t", 0, 0, 1)], pool)
    assert pool.tries[0] == 10


def test_a_pace_is_that_of_the_last_half_minute() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    assert pace.reached(0, 1000).left_s is None
    clock.advance(10)
    found = pace.reached(100, 1000)
    assert (found.per_s, found.left_s) == (10.0, 90.0)
    for done in range(101, 141):
        clock.advance(1)
        found = pace.reached(done, 1000)
    assert found.per_s == pytest.approx(1.0, rel=0.1)
    assert pace.reached(1000, 1000).left_s == 0.0
    assert found.text == "140 of 1,000 offsets, 1/s, 0:14:20 left"
    assert found.to_json() == {"done": 140, "total": 1000, "per_s": 1.0, "left_s": 860.0}
