"""A group's driver over logs and a bucket in memory: from topics to committed objects, through failures and crashes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from include.clock import ManualClock
from include.errors import Fenced, LyrebirdError, Terminal, Transient
from include.lake.chain import Chain
from include.lake.chain_key import ChainKey, TopicKey
from include.lake.cut_files import whole
from include.lake.definition import LakeGroup
from include.lake.driver import Driver
from include.lake.formats.sequence_file import SequenceFile
from include.lake.log_cuts import Logic
from include.lake.log_ranges import PortRanges
from include.lake.planner import Remade, Spot
from include.lake.pointer import read_pointer
from include.lake.task import Means, Outcome, Task, run_task
from include.log.memory import MemoryLog
from include.log.ports import TopicInfo, TopicSpec
from include.store.memory import MemoryStore

VERBATIM = SequenceFile(layout="verbatim")
GROUP = LakeGroup.model_validate(
    {
        "kind": "backup",
        "application": "lake",
        "topics": ["e*"],
        "prefix": "raw",
        "policy": {"max_bytes": 20_000, "max_age_s": 60, "record_bytes": 100},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    }
)


class One:
    """The only logic that there is."""

    logic = Logic("c", lambda _first: whole(("offset=0",)), VERBATIM, VERBATIM)

    def holding(self, partition: int, first: int, timestamp_ms: int) -> Logic:
        return self.logic

    def border(self, partition: int, first: int) -> int | None:
        return None

    def of(self, config: str) -> Logic:
        return self.logic


class World:
    """Log, bucket, and a pool that works when it is asked what is finished. Hears as a watcher."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(1_000_000_000)
        self.memory, self.store = MemoryLog(self.clock), MemoryStore()
        self.folder = folder
        self.slots = 4
        self.submitted: list[Task] = []
        self.fails: dict[Spot, LyrebirdError] = {}
        self.outcomes: list[Outcome] = []
        self.lost: list[Remade] = []
        self.away: list[LyrebirdError] = []
        self.dead = False
        self.driver = self.started()

    def started(self, group: LakeGroup = GROUP) -> Driver:
        return Driver("raw", group, self, self.store, self, self.clock, self, "here")

    def topics(self) -> list[TopicInfo]:
        if self.dead:
            raise Transient("the log is away")
        found = [self.memory.admin().describe(name) for name in self.memory.admin().names()]
        return [info for info in found if info]

    def edges(self, spots: Iterable[Spot]) -> dict[Spot, tuple[int, int]]:
        ranges = PortRanges(self.memory.reader(), self.memory.admin())
        return {spot: ranges.edges(spot.topic, spot.partition) for spot in spots}

    def timestamp_ms(self, spot: Spot, offset: int) -> int:
        end = self.memory.reader().end_offsets(spot.topic)[spot.partition]
        records = self.memory.reader().read(spot.topic, spot.partition, offset, end)
        return next((record.timestamp_ms for record in records), -1)

    def submit(self, task: Task) -> None:
        self.submitted.append(task)

    def finished(self) -> list[Outcome]:
        tasks, self.submitted = self.submitted, []
        return [self.run(task) for task in tasks]

    def run(self, task: Task) -> Outcome:
        if task.range.spot in self.fails:
            return Outcome(task, None, (), self.fails[task.range.spot])
        means = Means(self.store, PortRanges(self.memory.reader(), self.memory.admin()), One(), self.folder, self.clock)
        return run_task(task, means)

    def on_outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def on_lost(self, remade: Remade) -> None:
        self.lost.append(remade)

    def on_away(self, error: LyrebirdError) -> None:
        self.away.append(error)

    def make(self, name: str, partitions: int = 1) -> None:
        self.memory.admin().ensure(TopicSpec(name, partitions))

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        writer = self.memory.writer("w")
        writer.begin()
        for number in range(count):
            writer.append(topic, b"k", b"%090d" % number, partition=partition)
        writer.commit()

    def run_for(self, seconds: float, asked: str = "") -> None:
        for _ in range(int(seconds * 2)):
            self.driver.step(asked)  # type: ignore[arg-type]
            self.clock.advance(0.5)

    def stored(self, topic: str, partition: int = 0, generation: int = 1) -> list[tuple[int, int]]:
        info = self.memory.admin().describe(topic)
        assert info is not None
        chain = ChainKey(TopicKey("raw", topic, info.topic_id), generation, partition)
        return [(commit.first, commit.next) for commit in Chain(self.store, chain).commits(contiguous=False)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_topics_are_found_while_it_runs_and_stored_by_size_and_age(world: World) -> None:
    world.make("other")
    world.make("events", 2)
    world.write("events", 250)
    world.write("events", 10, 1)
    world.run_for(5)
    assert world.stored("events") == [(0, 200)]
    assert world.stored("events", 1) == []
    world.make("even-later")
    world.write("even-later", 5)
    world.run_for(70)
    assert world.stored("events") == [(0, 200), (200, 251)]
    assert world.stored("events", 1) == [(0, 11)]
    assert world.stored("even-later") == [(0, 6)]
    assert not [info for info in world.store.list("raw/_chain/other")]


def test_a_driver_that_begins_anew_goes_on_where_the_bucket_stands(world: World) -> None:
    world.make("events")
    world.write("events", 250)
    world.run_for(2)
    world.driver = world.started()
    world.write("events", 200)
    world.run_for(2)
    assert world.stored("events") == [(0, 200), (200, 400)]


def test_a_partition_that_fails_waits_and_the_others_go_on(world: World) -> None:
    world.make("events", 2)
    world.write("events", 300)
    world.write("events", 300, 1)
    (info,) = world.topics()
    world.fails[Spot("events", info.topic_id, 0)] = Transient("the store is away")
    world.run_for(10)
    assert world.stored("events") == []
    assert world.stored("events", 1) == [(0, 200)]
    assert 3 <= sum(outcome.error is not None for outcome in world.outcomes) <= 6
    world.fails.clear()
    world.run_for(20)
    assert world.stored("events") == [(0, 200)]


def test_what_must_not_go_on_stands_still(world: World) -> None:
    world.make("events")
    world.write("events", 300)
    (info,) = world.topics()
    spot = Spot("events", info.topic_id, 0)
    world.fails[spot] = Terminal("truncated")
    world.run_for(300)
    assert [str(outcome.error) for outcome in world.outcomes] == ["truncated"]
    assert world.driver.planner.stopped == {spot: "truncated"}
    assert not world.driver.left("flush")


def test_a_run_on_a_schedule_takes_what_was_there_and_ends(world: World) -> None:
    world.make("events")
    world.write("events", 450)
    world.driver.freeze()
    world.write("events", 100)
    steps = 0
    while world.driver.left("flush"):
        world.driver.step("flush")
        steps += 1
        assert steps < 20
    assert world.stored("events") == [(0, 200), (200, 359), (359, 451)]
    world.driver = world.started()
    world.driver.freeze()
    assert not world.driver.left()
    assert world.driver.left("flush")


def test_a_topic_made_anew_begins_a_chain_of_its_own_and_its_loss_is_told(world: World) -> None:
    world.make("events")
    world.write("events", 300)
    world.run_for(3)
    world.memory.admin().delete("events")
    world.make("events")
    world.write("events", 10)
    world.run_for(70)
    (lost,) = world.lost
    assert (lost.head, lost.end) == (200, 301)
    assert world.stored("events", generation=2) == [(0, 11)]


def test_a_newer_revision_takes_over_at_the_heads_and_the_older_one_is_fenced(world: World) -> None:
    world.make("events")
    world.write("events", 300)
    world.run_for(3)
    old = world.driver
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(70)
    assert world.stored("events", generation=1) == [(0, 200)]
    assert world.stored("events", generation=2) == [(200, 301)]
    pointer = read_pointer(world.store, TopicKey("raw", "events", world.topics()[0].topic_id))
    assert [pointer.generation_of(0, first) for first in (199, 200)] == [1, 2]
    with pytest.raises(Fenced):
        world.started().step()
    assert old is not world.driver


def test_a_log_that_is_away_is_told_and_asked_again(world: World) -> None:
    world.make("events")
    world.write("events", 300)
    world.dead = True
    world.run_for(3)
    assert world.away
    world.dead = False
    world.run_for(10)
    assert world.stored("events") == [(0, 200)]


def test_random_writes_restarts_and_failures_leave_each_offset_in_one_cut(world: World) -> None:
    chance = random.Random(5)
    world.make("events", 3)
    written = [0, 0, 0]
    for _ in range(120):
        partition = chance.randrange(3)
        if chance.random() < 0.5:
            count = chance.randrange(1, 300)
            world.write("events", count, partition)
            written[partition] += count
        if chance.random() < 0.1:
            world.submitted.clear()
            world.driver = world.started()
        world.run_for(chance.choice([0.5, 3]))
    world.fails.clear()
    world.run_for(200)
    for partition in range(3):
        cuts = world.stored("events", partition)
        assert cuts[0][0] == 0
        assert [each[1] for each in cuts[:-1]] == [each[0] for each in cuts[1:]]
        info = world.topics()[0]
        chain = ChainKey(TopicKey("raw", "events", info.topic_id), 1, partition)
        assert sum(commit.n_records for commit in Chain(world.store, chain).commits()) == written[partition]
