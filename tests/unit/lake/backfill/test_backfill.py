"""A parser with a bug, found after Kafka has dropped the records: made again from the raw copy, step by step."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from include.errors import Terminal, Transient
from include.lake.backfill.asked import Asked
from include.lake.backfill.comparison import compare
from include.lake.backfill.promotion import promote
from include.lake.backfill.rewrite import rewrite, tasks_of
from include.lake.backfill.runs import Run, begin, run_named, standing
from include.lake.planner import Range, Spot
from include.lake.task import Means, Task
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject
from tests.unit.lake.backfill.backfill_world import BackfillWorld, days, group, version

WRONG, RIGHT = version(1, "at"), version(2, "made", from_offsets={0: 10**6, 1: 10**6})
ALL_DAYS = days("2024-04-01", "2024-06-30")


def asked(**more: Any) -> Asked:
    return Asked("by_date", "events", **{"days": ALL_DAYS, "version": 2, "raw": "raw", **more})


def filled(folder: Path, *versions: dict[str, Any]) -> BackfillWorld:
    """Four cuts of two partitions, over three days, with a message that no parser understands and a null value."""
    world = BackfillWorld(folder, *versions)
    world.make("events", 2)
    for day in range(3):
        world.events("events", 20, day)
        world.events("events", 5, day, partition=1)
        world.send("events", [b"no json", None])
        world.store_all()
    return world


def folders(lines: list[bytes]) -> set[str]:
    return {line.split(b" ")[0].decode() for line in lines}


def forgotten(world: BackfillWorld) -> None:
    """Kafka drops all that it had."""
    for partition in (0, 1):
        world.memory.truncate("events", partition, 10**6)


def test_a_backfill_after_kafka_dropped_the_records_is_what_a_right_parser_would_have_written(tmp_path: Path) -> None:
    world = filled(tmp_path / "a", WRONG, RIGHT)
    forgotten(world)
    run = world.backfilled(asked())
    assert run.generations == {1: 2}
    right = filled(tmp_path / "b", version(1, "made"))
    made, would = world.objects(2), right.objects(1)
    assert made.keys() == would.keys()
    assert kept(made) == kept(would)
    assert len(kept(made)) == 6


def test_readers_see_the_old_cuts_until_the_promotion_and_the_new_ones_after_it(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    old = world.read()
    forgotten(world)
    run = begin(world.store, world.plan(asked()))
    assert world.read() == old
    world.write(run)
    assert world.read() == old
    found = promote(world.store, run)
    new = world.read()
    assert found.anew
    assert folders(old) == {"dt=2024-05-02", "dt=2024-05-03", "dt=2024-05-04", "_quarantine"}
    assert folders(new) == {"dt=2024-05-01", "dt=2024-05-02", "dt=2024-05-03", "_quarantine"}
    assert len(new) == len(old)
    assert promote(world.store, run).anew is False
    assert world.read() == new


def test_live_goes_on_beside_a_backfill_and_keeps_what_it_writes(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = begin(world.store, world.plan(asked()))
    world.events("events", 7, 1)
    world.store_all()
    world.write(run)
    promote(world.store, run)
    world.events("events", 3, 1)
    world.store_all()
    lines = [line for line in world.read() if not line.startswith(b"_quarantine")]
    assert len(lines) == 3 * 25 + 7 + 3
    assert len(set(lines)) == len(lines)


def test_the_same_parser_makes_the_same_bytes(tmp_path: Path) -> None:
    world = filled(tmp_path, version(1, "at"))
    before = world.objects(1)
    forgotten(world)
    run = world.backfilled(asked(version=None))
    assert world.objects(2) == before
    found = compare(world.store, run)
    assert (found.clean, found.equal, found.cuts) == (True, 6, 6)
    assert found.before == found.now


def test_records_may_come_from_kafka_while_it_has_them(tmp_path: Path) -> None:
    world = filled(tmp_path, version(1, "at"))
    before = world.objects(1)
    run = begin(world.store, world.plan(asked(version=None, origin="kafka", raw=""), log=True))
    world.write(run)
    assert world.objects(2) == before
    assert compare(world.store, run).clean


def test_what_kafka_drops_while_a_backfill_reads_it_is_seen_and_not_promoted(tmp_path: Path) -> None:
    world = filled(tmp_path, version(1, "at"))
    read = world.read()
    run = begin(world.store, world.plan(asked(version=None, origin="kafka", raw=""), log=True))
    world.memory.truncate("events", 0, 10)
    world.write(run)
    found = compare(world.store, run)
    assert {each.kind for each in found.differences} == {"read", "lost", "bytes"}
    with pytest.raises(Terminal, match="not what was expected"):
        promote(world.store, run)
    assert world.read() == read


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
            world.write(run, mortal)
            promote(mortal, run)
        except Crash:
            crashed = True
        seen = world.read()
        run = begin(world.store, world.plan(asked()), run_name(world))
        world.write(run)
        assert promote(world.store, run).comparison.whole
        assert seen in (old, world.read())
        expected = expected or kept(world.objects(2))
        assert kept(world.objects(2)) == expected
        if not crashed:
            break
    # The plan, a number, of each cut its promise, files and commit, and the promotion.
    assert writes >= 1 + 1 + 6 * 3 + 1


def run_name(world: BackfillWorld) -> str:
    """That of the run that has begun, "" where none has."""
    names = [info.key.split("/")[-2] for info in world.store.list("by_date/_backfill/")]
    return names[0] if names else ""


def kept(objects: dict[str, bytes]) -> dict[str, bytes]:
    """Those that are the same in every world: markers in what is set aside come of the topic's id."""
    return {name: body for name, body in objects.items() if not name.startswith("_quarantine")}


def test_tasks_have_cuts_that_follow_on_each_other_and_travel_to_other_hosts(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    plan = world.plan(asked())
    together, apart = (tasks_of(plan, {1: 2}, "w", most) for most in (1 << 30, 1))
    assert [(task.range.spot.partition, len(task.cuts)) for task in together] == [(0, 3), (1, 3)]
    assert [task.cuts for task in apart] == [((cut.first, cut.next),) for cut in plan.cuts]
    holed = dataclasses.replace(plan, cuts=plan.cuts[:1] + plan.cuts[2:])
    assert [len(task.cuts) for task in tasks_of(holed, {1: 2}, "w", 1 << 30)] == [1, 1, 3]
    assert pickle.loads(pickle.dumps((together, rewrite))) == (together, rewrite)


def test_a_task_of_another_kind_is_refused(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    task = Task("by_date", "by_date", Range(Spot("events", "id", 0), 0, 5, "age", ""), 1, 0, 1, "w")
    outcome = rewrite(task, Means(world.store, None, None, tmp_path, world.clock))  # type: ignore[arg-type]
    assert "no task of a backfill" in str(outcome.error)


def test_a_cut_that_ends_elsewhere_than_planned_stops_the_run(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = begin(world.store, world.plan(asked()), "mine")
    cuts = run.plan.cuts
    joined = dataclasses.replace(run.plan, cuts=(cuts[0]._replace(next=cuts[1].next), *cuts[2:]))
    world.write(dataclasses.replace(run, plan=joined))
    with pytest.raises(Terminal, match=r"ends elsewhere than it was planned.*partition=0"):
        world.write(run)


def test_a_run_keeps_the_plan_that_it_began_with(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run = begin(world.store, world.plan(asked()), "mine")
    world.events("events", 4, 0)
    world.store_all()
    assert len(world.plan(asked()).cuts) == len(run.plan.cuts) + 1
    assert begin(world.store, world.plan(asked()), "mine") == run
    assert run_named(world.store, world.topic_key(), "mine") == run
    with pytest.raises(Terminal, match="another backfill has this name"):
        begin(world.store, world.plan(asked(version=1)), "mine")
    with pytest.raises(Terminal, match=r"no backfill of this name.*mine"):
        run_named(world.store, world.topic_key(), "other")


def test_a_parser_that_was_changed_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    begin(world.store, world.plan(asked()), "mine")
    world.partitioned(group(WRONG, version(2, "other", from_offsets={0: 10**6})))
    with pytest.raises(Terminal, match="the parser was changed"):
        begin(world.store, world.plan(asked()), "mine")


def test_a_backfill_of_cuts_of_two_live_generations_is_promoted_by_one_change(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    world.by_date = world.partitioned(group(WRONG, RIGHT, revision=2))
    world.events("events", 9, 2)
    world.store_all()
    old = world.read()
    run = world.backfilled(asked())
    assert run.generations == {1: 3, 2: 4}
    assert world.read() == old
    promote(world.store, run)
    assert standing(world.pointer(), run) == "promoted"
    assert len(world.read()) == len(old)
    assert not any(line.startswith(b"dt=2024-05-04") for line in world.read())


def test_what_is_not_whole_or_not_expected_is_not_promoted(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, version(2, "nowhere", from_offsets={0: 10**6}))
    run = begin(world.store, world.plan(asked()))
    with pytest.raises(Terminal, match="not all cuts"):
        promote(world.store, run, accept=True)
    world.write(run)
    found = compare(world.store, run)
    assert {each.kind for each in found.differences} == {"refused"}
    with pytest.raises(Terminal, match="not what was expected"):
        promote(world.store, run)
    assert promote(world.store, run, accept=True).anew


def test_a_backfill_does_not_silently_undo_a_later_one(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    early = world.backfilled(asked(version=1))
    late = begin(world.store, world.plan(asked(version=2)), "late")
    world.write(late)
    promote(world.store, late)
    with pytest.raises(Terminal, match="follow another generation"):
        promote(world.store, early)
    read = world.read()
    promote(world.store, early, accept=True)
    assert world.read() != read


def test_backfills_of_neighbouring_days_may_share_a_cut_whoever_is_first(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    for day in (0, 1):
        world.events("events", 3, day)
    world.store_all()
    runs = [world.plan(asked(days=days("2024-05-02"))), world.plan(asked(days=days("2024-05-03")))]
    begun = [begin(world.store, plan) for plan in runs]
    assert {cut[:2] for cut in runs[0].cuts} & {cut[:2] for cut in runs[1].cuts}
    for run in begun:
        world.write(run)
    lines = len(world.read())
    for run in reversed(begun):
        assert promote(world.store, run).anew
    assert len(world.read()) == lines


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
    outcomes = world.write(run, away)
    assert [type(each.error) for each in outcomes if each.error] != []
    assert compare(world.store, run).whole


def test_an_error_that_stays_ends_the_run_and_names_the_partition(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    run: Run = begin(world.store, world.plan(asked()))
    source = next(each for each in run.plan.sources if each.partition == 1)
    found = world.store.get(source.key)
    assert found is not None
    world.store.put(source.key, found.body[:-1] + b"x", metadata=found.info.metadata)
    with pytest.raises(Terminal, match=r"not as its commit says.*partition=1"):
        world.write(run)
