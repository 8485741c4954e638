"""Cuts are made again by tasks that may end anywhere, wait, go elsewhere, or be refused."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.lake.backfill.comparison import compare
from include.lake.backfill.promotion import promote
from include.lake.backfill.rewrite import rewrite, tasks_of
from include.lake.backfill.run_registry import Run, begin
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.planner import Range
from include.lake.writing.task import Task, TaskContext
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject
from tests.support.lake.backfill_harness import RIGHT, WRONG, BackfillHarness, asked, filled, kept


class Crash(BaseException):
    """The process ends."""


class Mortal(MemoryStore):
    """Over the objects of another store; after so many writes the process ends, before or after the last."""

    def __init__(self, of: MemoryStore, writes: int, *, after: bool) -> None:
        super().__init__()
        self._objects, self._lock = of._objects, of._lock
        self.left, self.after = writes, after

    def _write(self, key: str, body: bytes, metadata: Any) -> ObjectInfo:
        self.left -= 1
        if self.left < 0 and not self.after:
            raise Crash
        info = super()._write(key, body, metadata)
        if self.left < 0:
            raise Crash
        return info


@pytest.mark.parametrize("after", [False, True])
def test_a_backfill_goes_on_after_a_crash_at_any_write(tmp_path: Path, after: bool) -> None:
    expected: dict[str, bytes] = {}
    for writes in range(1000):
        world = filled(tmp_path / str(writes), WRONG, RIGHT)
        old = world.read()
        mortal = Mortal(world.store, writes, after=after)
        crashed = False
        try:
            run = begin(mortal, world.plan(asked()))
            world.rewrite(run, mortal)
            promote(mortal, run)
        except Crash:
            crashed = True
        seen = world.read()
        run = begin(world.store, world.plan(asked()), run_name(world))
        world.rewrite(run)
        assert promote(world.store, run).comparison.whole
        assert seen in (old, world.read())
        expected = expected or kept(world.objects(2))
        assert kept(world.objects(2)) == expected
        if not crashed:
            break
    # The plan, a number, of each cut its promise, files and commit, and the promotion.
    assert writes >= 1 + 1 + 6 * 3 + 1


def run_name(world: BackfillHarness) -> str:
    """That of the run that has begun, "" where none has."""
    names = [info.key.split("/")[-2] for info in world.store.list("by_date/_backfill/")]
    return names[0] if names else ""


def test_tasks_have_cuts_that_follow_on_each_other_and_travel_to_other_hosts(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    plan = world.plan(asked())
    together, apart = (tasks_of(plan, {1: 2}, "w", most) for most in (1 << 30, 1))
    assert [(task.range.tp.partition, len(task.cuts)) for task in together] == [(0, 3), (1, 3)]
    assert [task.cuts for task in apart] == [((cut.first, cut.next),) for cut in plan.cuts]
    holed = dataclasses.replace(plan, cuts=plan.cuts[:1] + plan.cuts[2:])
    assert [len(task.cuts) for task in tasks_of(holed, {1: 2}, "w", 1 << 30)] == [1, 1, 3]
    assert pickle.loads(pickle.dumps((together, rewrite))) == (together, rewrite)


def test_a_task_of_another_kind_is_refused(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    task = Task("by_date", "by_date", Range(TopicIdPartition("events", "id", 0), 0, 5, "age", ""), 1, 0, 1, 1, "w")
    outcome = rewrite(task, TaskContext(world.store, None, None, tmp_path, world.clock))  # type: ignore[arg-type]
    assert "no task of a backfill" in str(outcome.error)


def test_a_cut_that_ends_elsewhere_than_planned_stops_the_run(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = begin(world.store, world.plan(asked()), "mine")
    cuts = run.plan.cuts
    joined = dataclasses.replace(run.plan, cuts=(cuts[0]._replace(next=cuts[1].next), *cuts[2:]))
    world.rewrite(dataclasses.replace(run, plan=joined))
    with pytest.raises(Terminal, match="ends elsewhere than it was planned") as refused:
        world.rewrite(run)
    assert refused.value.details["partition"] == 0


def test_a_store_that_is_away_for_a_while_is_asked_again(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = begin(world.store, world.plan(asked()))

    class Away(MemoryStore):
        """Silent for a while."""

        calls = 0

        def get(self, key: str) -> StoredObject | None:
            self.calls += 1
            if 20 < self.calls < 40:
                raise Transient("no answer", system="s3")
            return super().get(key)

    away = Away()
    away._objects, away._lock = world.store._objects, world.store._lock
    outcomes = world.rewrite(run, away)
    assert [type(each.error) for each in outcomes if each.error] != []
    assert compare(world.store, run).whole


def test_an_error_that_stays_ends_the_run_and_names_the_partition(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run: Run = begin(world.store, world.plan(asked()))
    source = next(each for each in run.plan.sources if each.partition == 1)
    found = world.store.get(source.key)
    assert found is not None
    world.store.put(source.key, found.body[:-1] + b"x", metadata=found.info.metadata)
    with pytest.raises(Terminal, match="not as its commit says") as refused:
        world.rewrite(run)
    assert refused.value.details["partition"] == 1
