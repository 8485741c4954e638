"""A parser with a bug, found after Kafka has dropped the records: made again from the raw copy, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import Terminal
from include.lake.backfill.comparison import compare
from include.lake.backfill.promotion import promote
from include.lake.backfill.run_registry import begin, run_named, standing
from tests.support.lake.backfill_harness import (
    RIGHT,
    WRONG,
    BackfillHarness,
    asked,
    days,
    filled,
    group,
    kept,
    version,
)


def folders(lines: list[bytes]) -> set[str]:
    return {line.split(b" ")[0].decode() for line in lines}


def forgotten(world: BackfillHarness) -> None:
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
    world.rewrite(run)
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
    world.rewrite(run)
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
    world.rewrite(run)
    assert world.objects(2) == before
    assert compare(world.store, run).clean


def test_what_kafka_drops_while_a_backfill_reads_it_is_seen_and_not_promoted(tmp_path: Path) -> None:
    world = filled(tmp_path, version(1, "at"))
    read = world.read()
    run = begin(world.store, world.plan(asked(version=None, origin="kafka", raw=""), log=True))
    world.memory.truncate("events", 0, 10)
    world.rewrite(run)
    found = compare(world.store, run)
    assert {each.kind for each in found.differences} == {"read", "lost", "bytes"}
    with pytest.raises(Terminal, match="not what was expected"):
        promote(world.store, run)
    assert world.read() == read


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
    world.rewrite(run)
    found = compare(world.store, run)
    assert {each.kind for each in found.differences} == {"refused"}
    with pytest.raises(Terminal, match="not what was expected"):
        promote(world.store, run)
    assert promote(world.store, run, accept=True).anew


def test_a_backfill_does_not_silently_undo_a_later_one(tmp_path: Path) -> None:
    world = filled(tmp_path, WRONG, RIGHT)
    early = world.backfilled(asked(version=1))
    late = begin(world.store, world.plan(asked(version=2)), "late")
    world.rewrite(late)
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
        world.rewrite(run)
    lines = len(world.read())
    for run in reversed(begun):
        assert promote(world.store, run).anew
    assert len(world.read()) == lines
