"""Join keys with more outputs than one record may change: what is held comes when it is asked for, no more stays."""

from __future__ import annotations

import pytest

from tests.support.joins.histories import History, expected
from tests.unit.join.driver_harness import JoinDriverHarness, Process
from tests.unit.join.test_avro_rows import set_up
from tests.unit.join.test_takeover import answers, asked, through

pytestmark = pytest.mark.unit


def limited(history: History, most: int) -> JoinDriverHarness:
    """The history's world, whose join holds what changes more than `most` outputs."""
    world = JoinDriverHarness(set_up(history, most=most))
    world.write()
    Process(world, lambda writer: writer, 5).to_the_end()
    return world


def allowed(world: JoinDriverHarness, most: int = 100_000) -> Process:
    """The join after a restart with another limit."""
    world.setup = set_up(world.setup.history, most=most)
    return Process(world, lambda writer: writer, 5)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_repair_after_the_limit_was_raised_makes_the_topic_what_sql_says(grouped: bool) -> None:
    incomplete = wrong = 0
    for seed in range(120):
        history = History(seed, changes=60, grouped=grouped)
        world = limited(history, 1 + seed % 3)
        wrong += world.table() != expected(history)
        process = allowed(world)
        incomplete += process.runner.committed.counts()["incomplete"]
        asked(world, "repair")
        process.to_the_end()
        through(world, process)
        assert world.table() == expected(history), seed
        assert process.runner.committed.counts()["incomplete"] == 0
    assert incomplete > 50
    assert wrong > 20


def test_a_repair_under_the_same_limit_leaves_the_mark() -> None:
    history = next(h for h in map(History, range(1000)) if limited(h, 1).table() != expected(h))
    world = limited(history, 1)
    process = allowed(world, 1)
    before = process.runner.committed.counts()["incomplete"]
    asked(world, "repair")
    process.to_the_end()
    through(world, process)
    assert process.runner.committed.counts()["incomplete"] >= before > 0


def test_a_repair_of_some_keys_writes_them_however_many_outputs_their_join_keys_have() -> None:
    tried = 0
    for seed in range(250):
        history = History(seed, changes=60)
        world = limited(history, 100_000)
        good, table = world.keys(), world.table()
        if not good:
            continue
        process = allowed(world, 1)
        asked(world, "repair", *good)
        process.to_the_end()
        tried += len(good)
        assert world.keys() == good, seed
        assert world.table() == table
        assert process.runner.committed.counts()["incomplete"] == 0
        assert answers(world) == [("r-1", "accepted"), ("r-1", "done")]
    assert tried > 200


def test_what_leaves_a_join_key_that_lacks_nothing_is_not_remembered() -> None:
    world = limited(History(3, changes=60), 100_000)
    buckets = world.held(allowed(world).runner.committed.pointers)
    kept = [key for (stage, _), state in buckets for key in state if stage == "rows"]
    assert kept
    assert not [key for key in kept if key[:1] in (b"i", b"l")]
