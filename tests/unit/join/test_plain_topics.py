"""Joins of topics that nothing is resolved of: marks say what was read, and offsets alone tell the order."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.errors import Terminal
from include.join.status import join_status
from tests.unit.join import driver_harness
from tests.unit.join.test_registry_ids import BUSINESS_7, OUT, Harness, Run, review

pytestmark = pytest.mark.unit
_DAY_S = 86_400


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A business with two reviews, joined."""
    made = Harness(tmp_path)
    monkeypatch.setattr(driver_harness, "BUCKETS", made.join.file.buckets)
    made.clock.advance(_DAY_S)
    made.put("sales.businesses", BUSINESS_7)
    for id in (1, 2):
        made.put("sales.reviews", review(id, 30 + id))
    Run(made).to_the_end()
    assert len(made.shown()) == 1
    return made


def test_one_that_was_away_for_longer_than_deletes_are_kept_is_made_anew_if_it_missed_anything(world: Harness) -> None:
    world.clock.advance(100 * _DAY_S)
    assert Run(world).runner.committed.takeover is None
    world.put("sales.reviews", review(3, 33))
    for _ in range(2):
        # Whoever opens it says so until it has begun.
        assert Run(world).runner.committed.takeover is not None


def test_one_whose_topic_was_made_anew_is_written_anew(world: Harness) -> None:
    world.log.admin().delete(OUT)
    assert Run(world).runner.committed.takeover is not None


def test_its_status_tells_when_it_committed_last(world: Harness) -> None:
    status = join_status(world.join, world.log.reader(), world.log.admin())
    assert status.at == "1970-01-02T00:00:00.000000Z"
    assert status.behind == 0
    assert "  said at 1970-01-02T00:00:00.000000Z; 0 records of inputs behind" in status.lines()


def test_a_deleted_row_is_not_remembered(world: Harness) -> None:
    for id in (1, 2):
        world.put("sales.reviews", review(id, 0), deleted=True)
    run = Run(world)
    run.to_the_end()
    assert world.shown() == []
    pointers = run.runner.committed.pointers
    kept = {stage: world.states.versions[pointer] for (stage, _), pointer in pointers.items() if stage == "whereabouts"}
    assert kept
    assert not any(kept.values())


def test_one_whose_input_grows_ends_with_the_way_out(world: Harness) -> None:
    running = Run(world)
    world.log.grow("sales.reviews", 3)
    world.put("sales.reviews", review(3, 33))
    with pytest.raises(Terminal, match="another name"):
        running.to_the_end()
    with pytest.raises(Terminal, match="has grown"):
        Run(world)


def test_a_key_column_that_grows_from_int_to_long_keeps_one_output_for_each_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Harness(tmp_path, business_id="int")
    monkeypatch.setattr(driver_harness, "BUCKETS", world.join.file.buckets)
    world.put("sales.businesses", BUSINESS_7)
    world.put("sales.reviews", review(1, 31))
    Run(world).to_the_end()
    world.register("long")
    run = Run(world)
    world.put("sales.reviews", review(2, 32))
    for id in (3, 4, 5):
        world.put("sales.reviews", review(id, 33))
        run.to_the_end()
    assert run.runner.committed.takeover is None
    ((key, value),) = world.shown()
    assert key == {"biz_id": 7}
    assert value["user_id"] in (31, 32, 33)
    assert Run(world).runner.committed.takeover is None
