"""A group of many partitions begins: in parts, each of which is told, whatever has to be looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from include.errors import Transient
from include.lake.reading.group_log import TopicIdPartition
from include.store.memory import MemoryStore
from tests.support.lake.harness import GROUP, LakeHarness

PARTITIONS = 600
# Of one part: a listing, a hint and a commit for each of 256 partitions, and what the topic itself asks for.
MOST = 3 * 256 + 20


class Counted(MemoryStore):
    """Counts requests, and fails those for a key that has `away` in it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.away = ""

    def get(self, key: str) -> Any:
        self._count(key)
        return super().get(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Any]:
        self._count(prefix)
        return super().list(prefix, start_after=start_after)

    def _count(self, key: str) -> None:
        self.requests += 1
        if self.away and self.away in key:
            raise Transient("no answer", system="s3")


class Wide(LakeHarness):
    """A topic with many partitions, a record in each, and a store that counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store: Counted = Counted()
        self.slots = PARTITIONS
        self.asked: list[int] = []
        self.make("events", PARTITIONS)
        writer = self.memory.writer("w")
        writer.begin()
        for partition in range(PARTITIONS):
            writer.append("events", b"k", b"v", partition=partition)
        writer.commit()
        self.driver = self.started()

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        begins, ends = (self.memory.reader().begin_offsets("events"), self.memory.reader().end_offsets("events"))
        return {tp: (begins[tp.partition], ends[tp.partition]) for tp in tps}

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        self.asked.append(len(offsets))
        return super().timestamps_ms(offsets)

    def store_all(self) -> None:
        self.driver.freeze()
        while self.driver.left("flush"):
            self.driver.step("flush")
        assert len(self.outcomes) >= PARTITIONS
        assert not [each.error for each in self.outcomes if each.error]


@pytest.fixture
def world(tmp_path: Path) -> Wide:
    return Wide(tmp_path)


def test_no_step_asks_for_more_than_a_part_of_the_heads_and_ages(world: Wide) -> None:
    world.store_all()
    world.driver = world.started()
    world.write("events", 1)
    per_step, world.asked = [], []
    for _ in range(5):
        before = world.store.requests
        world.driver.step()
        per_step.append(world.store.requests - before)
        world.clock.advance(0.5)
    assert max(per_step) <= MOST
    assert sum(bool(requests) for requests in per_step) >= PARTITIONS // 256
    assert not world.driver.planner.headless()
    assert max(world.asked, default=0) <= 256


def test_ages_are_asked_for_many_partitions_at_once(world: Wide) -> None:
    world.driver.freeze()
    assert world.asked == [256, 256, 88]
    assert not world.driver.planner.unaged()


def test_a_run_on_a_schedule_tells_between_the_parts_of_its_look(world: Wide) -> None:
    world.store_all()
    world.driver = world.started()
    at: list[int] = [world.store.requests]
    world.driver.freeze(lambda: at.append(world.store.requests))
    at.append(world.store.requests)
    assert max(after - before for before, after in pairwise(at)) <= MOST
    assert not world.driver.planner.headless()


def test_a_newer_revision_tells_between_the_parts_of_its_taking_over(world: Wide) -> None:
    world.store_all()
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    at: list[int] = [world.store.requests]
    world.driver.step("", lambda: at.append(world.store.requests))
    at.append(world.store.requests)
    assert len(at) >= 2 + PARTITIONS // 256
    # Those before ask for the last commit once more, and the first part of its own heads follows their last part.
    assert max(after - before for before, after in pairwise(at)) <= 2 * MOST + 256
    assert world.driver.planner.head(world.driver.planner.tps[0]) == 2


def test_what_was_looked_up_before_a_store_went_away_is_kept(world: Wide) -> None:
    world.store_all()
    world.driver = world.started()
    world.store.away = "/1/3/"
    world.driver.step()
    assert len(world.away) == 1
    assert 0 < len(world.driver.planner.headless()) < PARTITIONS
    world.store.away = ""
    world.clock.advance(2)
    for _ in range(5):
        world.driver.step()
    assert world.back == 1
    assert not world.driver.planner.headless()


def test_the_pointer_notes_no_heads_before_all_are_known(world: Wide) -> None:
    world.store_all()
    world.clock.advance(86_400)
    world.driver = world.started()
    world.driver.step()
    world.driver.note()
    pointer = next(key for key in (info.key for info in world.store.list("raw/_chain/")) if key.endswith("current"))
    before = world.store.get(pointer).body
    for _ in range(5):
        world.clock.advance(0.5)
        world.driver.step()
    world.driver.note()
    assert world.store.get(pointer).body != before
