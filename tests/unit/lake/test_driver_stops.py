"""What stops a group's driver, what stops one partition of it, and what only makes it wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from include.errors import Fenced, Terminal, Transient
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.pointer import read_pointer
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.report import GroupReport
from include.lake.writing.task import Outcome, Task
from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo, StoredObject
from tests.support.lake.harness import GROUP, LakeHarness


class Log(LakeHarness):
    """One that shows another end than it has, or no partition any more."""

    def __init__(self, folder: Path) -> None:
        self.shown: dict[str, int] = {}
        self.gone = False
        super().__init__(folder)

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        there = set(self.memory.admin().names())
        found = super().edges(tp for tp in tps if tp.topic in there)
        return {tp: (begin, self.shown.get(tp.topic, end)) for tp, (begin, end) in found.items()}

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        return dict.fromkeys(offsets, -1) if self.gone else super().timestamps_ms(offsets)

    def tp(self, topic: str = "events", partition: int = 0) -> TopicIdPartition:
        return next(TopicIdPartition(topic, info.named_id, partition) for info in self.topics() if info.name == topic)


@pytest.fixture
def world(tmp_path: Path) -> Log:
    return Log(tmp_path)


def two_topics(world: LakeHarness) -> None:
    for topic in ("events", "extra"):
        world.make(topic)
        world.write(topic, 300)
    world.run_for(3)
    assert world.stored("events") == world.stored("extra") == [(0, 200)]


def test_a_log_that_was_truncated_below_its_chain_stands_still_before_new_records_are_taken_for_stored_ones(
    world: Log,
) -> None:
    two_topics(world)
    world.shown["events"] = 150
    world.run_for(15)
    assert not world.driver.planner.stopped
    world.run_for(10)
    assert list(world.driver.planner.stopped) == [world.tp()]
    assert "truncated" in world.driver.planner.stopped[world.tp()]
    assert "end=150" in world.driver.planner.stopped[world.tp()]
    world.shown.clear()
    world.write("events", 300)
    world.write("extra", 300)
    world.run_for(70)
    assert world.stored("events") == [(0, 200)]
    assert world.stored("extra")[-1][1] == 602


def test_a_log_that_shows_an_old_end_for_a_moment_was_not_truncated(world: Log) -> None:
    two_topics(world)
    world.shown["events"] = 150
    world.run_for(10)
    world.shown.clear()
    world.run_for(70)
    assert not world.driver.planner.stopped
    assert world.stored("events") == [(0, 200), (200, 301)]


def test_a_run_on_a_schedule_tells_of_a_truncated_log_at_once(world: Log) -> None:
    two_topics(world)
    world.shown["events"] = 150
    world.driver = world.started()
    world.driver.freeze()
    assert list(world.driver.planner.stopped) == [world.tp()]


def test_what_is_damaged_of_one_topic_stops_that_and_no_other(world: Log) -> None:
    two_topics(world)
    world.store.put(TopicKey("raw", "events", world.tp().topic_id).pointer, b"{}")
    report = GroupReport("raw")
    world.driver = world.started()
    world.run_for(70)
    assert list(world.driver.planner.stopped) == [world.tp()]
    assert "cannot be read" in report.to_json(world.driver.planner)["failing"]["events/0"]
    assert world.stored("extra") == [(0, 200), (200, 301)]


def test_a_topic_that_goes_between_two_looks_stops_nothing(world: Log) -> None:
    two_topics(world)
    world.gone = True
    world.write("events", 300)
    world.run_for(70)
    assert not world.driver.planner.stopped
    assert world.stored("events")[-1][1] == 602


@pytest.mark.parametrize("system", ["s3", "kafka", "registry"])
def test_a_stream_goes_on_when_what_refused_it_is_mended_and_a_run_on_a_schedule_ends(world: Log, system: str) -> None:
    two_topics(world)
    tp = world.tp()
    world.fails[tp] = Terminal("it refuses this", system=system)
    world.write("events", 300)
    world.run_for(70)
    assert world.outcomes[-1].error is not None
    assert not world.driver.planner.stopped
    assert world.driver.planner.waiting()[tp] == 402
    assert world.driver.planner.age_ms(world.clock.now_us() // 1000) >= 60_000
    del world.fails[tp]
    world.run_for(130)
    assert world.stored("events")[-1][1] == 602
    world.fails[tp] = Terminal("it refuses this", system=system)
    world.write("events", 300)
    world.driver.freeze()
    world.run_for(3, "flush")
    assert list(world.driver.planner.stopped) == [tp]
    assert not world.driver.left("flush")


@pytest.mark.parametrize("more", [0, 30])
def test_a_cut_whose_answer_was_lost_is_told_as_failing_until_it_is_seen_to_be_stored(
    world: Log, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    two_topics(world)
    run, told, asked = world.run, GroupReport("raw"), 0

    def unanswered(task: Task) -> Outcome:
        nonlocal asked
        asked += 1
        run(task)
        return Outcome(task, None, (), Transient("no answer"))

    def failing() -> list[str]:
        return list(told.to_json(world.driver.planner)["failing"])

    with monkeypatch.context() as patch:
        patch.setattr(world, "run", unanswered)
        world.driver.step("flush")
        world.driver.settle()
    assert asked == 2
    assert failing() == ["events/0", "extra/0"]
    # What comes meanwhile is not due for a minute.
    world.write("events", more)
    world.run_for(3)
    assert failing() == []
    assert asked == 2
    assert world.stored("events") == [(0, 200), (200, 301)]


def test_a_store_that_refuses_every_look_is_waited_for(world: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make("events")
    world.write("events", 300)

    def refused(*_: object) -> None:
        raise Terminal("the object store refuses this", system="s3")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "get", refused)
        world.run_for(5)
    assert {str(error) for error in world.away} == {"the object store refuses this (system='s3')"}
    world.run_for(5)
    assert world.back == 1
    assert world.stored("events") == [(0, 200)]


def refusing(world: Log, monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
    """The store gives no object whose key has one of these: it lies in an archive, or is denied."""
    get = world.store.get

    def refused(key: str) -> StoredObject | None:
        if any(part in key for part in parts):
            raise Terminal("an object lies in an archive and cannot be read", system="s3", key=key)
        return get(key)

    monkeypatch.setattr(world.store, "get", refused)


@pytest.mark.parametrize("revision", [1, 2])
def test_an_object_that_the_store_refuses_holds_up_its_partition_and_no_other(
    world: Log, monkeypatch: pytest.MonkeyPatch, revision: int
) -> None:
    two_topics(world)
    world.write("events", 300)
    world.write("extra", 300)
    report = GroupReport("raw")
    world.driver = world.started(GROUP.model_copy(update={"revision": revision}))
    with monkeypatch.context() as patch:
        refusing(world, patch, f"{world.tp().topic_id}/1/0/")
        world.run_for(120)
        assert not world.away
        assert not world.driver.planner.stopped
        assert world.stored("extra", generation=revision)[-1][1] == 602
        assert {tp for tp, _ in world.refused} == {world.tp()}
        # Not ten times a second.
        assert len(world.refused) < 10
        assert "archive" in report.to_json(world.driver.planner)["failing"]["events/0"]
    # It is restored, and a stream goes on by itself.
    world.run_for(130)
    assert world.stored("events", generation=revision)[-1][1] == 602
    assert report.to_json(world.driver.planner)["failing"] == {}


def test_a_run_on_a_schedule_leaves_the_partition_of_an_object_that_the_store_refuses(
    world: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_topics(world)
    refusing(world, monkeypatch, f"{world.tp().topic_id}/1/0/")
    world.driver = world.started()
    world.driver.freeze()
    world.run_for(3, "flush")
    assert list(world.driver.planner.stopped) == [world.tp()]
    assert not world.driver.left("flush")
    assert world.stored("extra")[-1][1] == 301


def test_a_topic_whose_pointer_the_store_refuses_holds_up_no_other(world: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule archives what has not changed for long: of a former life that is its pointer."""
    two_topics(world)
    world.write("events", 300)
    world.write("extra", 300)
    refusing(world, monkeypatch, TopicKey("raw", "events", world.tp().topic_id).pointer)
    world.driver = world.started()
    world.run_for(120)
    assert not world.away
    assert {tp.topic for tp, _ in world.refused} == {"events"}
    assert world.stored("extra")[-1][1] == 602


def test_a_store_that_refuses_pointers_too_is_waited_for(world: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    two_topics(world)
    world.driver = world.started()
    world.driver.step()
    planner = world.driver.planner
    planner.on_failure(world.tp(), world.clock.now_us() // 1000, "a task failed")
    with monkeypatch.context() as patch:
        refusing(world, patch, "raw/")
        world.run_for(4)
    assert world.away
    assert not world.refused


def test_a_running_revision_is_fenced_when_a_newer_one_takes_over(world: Log) -> None:
    two_topics(world)
    old = world.driver
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.driver.step()
    world.clock.advance(6)
    with pytest.raises(Fenced, match="newer revision"):
        old.step()
    world.run_for(70)
    assert world.stored("events", generation=2) == [(200, 301)]


def grown(world: Log, since: int) -> None:
    """All is stored of a log that then loses its records from `since` on, and has others there when it is seen."""
    world.leaders = {0: 3}
    world.make("events")
    world.write("events", 300)
    world.run_for(70)
    assert world.stored("events") == [(0, 200), (200, 301)]
    world.leaders[since] = 5
    world.write("events", 300)


@pytest.mark.parametrize(("since", "begins"), [(250, 200), (150, 0)])
def test_a_log_that_was_truncated_and_has_grown_since_stands_still_until_a_newer_revision_stores_it_again(
    world: Log, since: int, begins: int
) -> None:
    grown(world, since)
    for _ in range(2):
        world.run_for(10)
        assert "truncated, and has grown since" in world.driver.planner.stopped[world.tp()]
        world.driver = world.started()
    assert world.stored("events") == [(0, 200), (200, 301)]
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(70)
    assert not world.driver.planner.stopped
    stored = world.stored("events", generation=2)
    assert (stored[0][0], stored[-1][1]) == (begins, 602)
    live = read_pointer(world.store, TopicKey("raw", "events", world.tp().topic_id)).live
    assert live is not None
    assert live.start(0) == begins


def test_a_newer_revision_of_a_log_that_ends_before_its_chain_begins_with_what_the_log_has(world: Log) -> None:
    two_topics(world)
    world.run_for(70)
    world.shown["events"] = 250
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(70)
    assert not world.driver.planner.stopped
    assert world.stored("events", generation=2) == [(200, 250)]


@pytest.mark.parametrize("since", [300, 301])
def test_another_leader_alone_is_no_truncation(world: Log, since: int) -> None:
    # At 300 stands the marker of the transaction before.
    grown(world, since)
    world.run_for(70)
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.write("events", 300)
    world.run_for(70)
    assert world.stored("events")[-1][1] == 602
    assert world.stored("events", generation=2)[0][0] == 602


def test_what_a_topic_made_anew_takes_with_it_is_told_also_when_its_task_met_that_first(world: Log) -> None:
    two_topics(world)
    tp = world.tp()
    world.fails[tp] = Terminal("the topic was deleted or made anew while it was being stored")
    world.write("events", 300)
    world.run_for(3)
    assert world.driver.planner.stopped
    world.memory.admin().delete("events")
    world.run_for(6)
    assert [(lost.tp, lost.head, lost.end) for lost in world.lost] == [(tp, 200, 602)]


def test_what_waits_and_how_long_is_known_while_a_partition_fails(world: Log) -> None:
    two_topics(world)
    tp = world.tp()
    world.fails[tp] = Transient("the store is away")
    world.write("events", 300)
    world.run_for(2)
    world.dead = True
    world.run_for(200)
    assert world.driver.planner.waiting()[tp] == 402
    assert world.driver.planner.age_ms(world.clock.now_us() // 1000) > 180_000


class _Counting(MemoryStore):
    """Counts what listings show."""

    listed = 0

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            self.listed += 1
            yield info


def test_a_task_lists_no_more_of_a_long_chain_than_its_end(world: Log) -> None:
    world.store = counting = _Counting()
    world.driver = world.started()
    world.make("events")
    world.write("events", 12_000)
    world.run_for(60)
    before = len(world.stored("events"))
    assert before > 50
    counting.listed = 0
    world.write("events", 1_000)
    world.run_for(10)
    listed = counting.listed
    assert listed <= 2 * (len(world.stored("events")) - before) + 2
