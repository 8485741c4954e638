"""Up to where groups are stored, beside where the log ends."""

from __future__ import annotations

from pathlib import Path

from include.lake.committed import CommittedOffset, committed_offsets
from tests.lake_world import GROUP, World


def test_each_partition_has_its_committed_offset_and_the_logs_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.make("events", 2)
    world.make("other")
    world.write("events", 300)
    world.run_for(5)
    assert committed_offsets({"raw": GROUP}, world.store, world) == [
        CommittedOffset("raw", "events", 0, 1, 200, 301),
        CommittedOffset("raw", "events", 1, 1, 0, 0),
    ]


def test_a_topic_with_which_a_group_has_not_begun_is_told_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.make("events")
    world.write("events", 3)
    assert committed_offsets({"raw": GROUP}, world.store, world) == [CommittedOffset("raw", "events", 0, None, 0, 4)]


def test_of_several_generations_the_one_that_is_written_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.make("events")
    world.write("events", 300)
    world.run_for(70)
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(1)
    (found,) = committed_offsets({"raw": GROUP}, world.store, world)
    assert (found.generation, found.offset) == (2, 301)
