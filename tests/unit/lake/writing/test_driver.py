"""A group's driver over logs and a bucket in memory: from topics to committed objects, through failures and crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from include.errors import Fenced, Terminal, Transient
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Gap
from include.lake.protocol.pointer import read_pointer
from include.lake.reading.group_log import TopicIdPartition
from tests.support.lake.harness import GROUP, LakeHarness


@pytest.fixture
def world(tmp_path: Path) -> LakeHarness:
    return LakeHarness(tmp_path)


def test_topics_are_found_while_it_runs_and_stored_by_size_and_age(world: LakeHarness) -> None:
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


def test_a_driver_that_begins_anew_goes_on_where_the_bucket_stands(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 250)
    world.run_for(2)
    world.driver = world.started()
    world.write("events", 200)
    world.run_for(2)
    assert world.stored("events") == [(0, 200), (200, 400)]


def test_many_small_topics_share_jobs_and_each_is_stored_to_its_end(world: LakeHarness) -> None:
    world.slots, world.together = 2, 16
    for number in range(40):
        world.make(f"e{number}")
        world.write(f"e{number}", 3)
    world.driver.freeze()
    while world.driver.left("flush"):
        world.driver.step("flush")
    assert world.jobs == 4
    assert [world.stored(f"e{number}")[-1][1] for number in range(40)] == [4] * 40


def test_a_partition_that_fails_waits_and_the_others_go_on(world: LakeHarness) -> None:
    world.make("events", 2)
    world.write("events", 300)
    world.write("events", 300, 1)
    (info,) = world.topics()
    world.fails[TopicIdPartition("events", info.named_id, 0)] = Transient("the store is away")
    world.run_for(10)
    assert world.stored("events") == []
    assert world.stored("events", 1) == [(0, 200)]
    assert 3 <= sum(outcome.error is not None for outcome in world.outcomes) <= 6
    world.fails.clear()
    world.run_for(20)
    assert world.stored("events") == [(0, 200)]


def test_what_must_not_go_on_stands_still(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 300)
    (info,) = world.topics()
    tp = TopicIdPartition("events", info.named_id, 0)
    world.fails[tp] = Terminal("truncated")
    world.run_for(300)
    assert [str(outcome.error) for outcome in world.outcomes] == ["truncated"]
    assert world.driver.planner.stopped == {tp: "truncated"}
    assert not world.driver.left("flush")


def test_a_run_on_a_schedule_takes_what_was_there_and_ends(world: LakeHarness) -> None:
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


def test_a_topic_made_anew_begins_a_chain_of_its_own_and_its_loss_is_told(world: LakeHarness) -> None:
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


def test_a_newer_revision_takes_over_at_the_heads_and_the_older_one_is_fenced(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 300)
    world.run_for(3)
    old = world.driver
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(70)
    assert world.stored("events", generation=1) == [(0, 200)]
    assert world.stored("events", generation=2) == [(200, 301)]
    pointer = read_pointer(world.store, TopicKey("raw", "events", world.topics()[0].named_id))
    assert [pointer.generation_of(0, first) for first in (199, 200)] == [1, 2]
    with pytest.raises(Fenced):
        world.started().step()
    assert old is not world.driver


def lose_chain(world: LakeHarness, generation: int) -> None:
    """The pointer has noted how far it was, as it does each day, and somebody removes all of it."""
    world.clock.advance(86_400)
    world.run_for(10)
    (info,) = world.topics()
    chain = ChainKey(TopicKey("raw", "events", info.named_id), generation, 0)
    for key in [each.key for each in world.store.list(f"{chain}/")]:
        world.store.delete(key)


def test_a_newer_revision_tells_what_the_chain_before_it_had_lost(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 44)
    world.run_for(65)
    lose_chain(world, 1)
    world.memory.truncate("events", 0, 30)
    newer = GROUP.model_copy(update={"revision": 2})
    tp = TopicIdPartition("events", world.topics()[0].named_id, 0)
    world.driver = world.started(newer)
    world.driver.step()
    assert world.unread == [(tp, 0, 45)]
    # It crashes, and the next one tells again: the mail may not have been written.
    world.driver = world.started(newer)
    world.run_for(70)
    assert world.unread == [(tp, 0, 45)] * 2
    assert world.stored("events", generation=2) == [(0, 45)]
    (cut,) = [commit for outcome in world.outcomes for commit in outcome.commits][-1:]
    assert (cut.first, cut.gaps) == (0, (Gap(0, 30, "lost"),))
    # A day later it has come so far, and there is nothing left to tell.
    world.clock.advance(86_400)
    world.run_for(10)
    world.driver = world.started(newer)
    world.run_for(5)
    assert len(world.unread) == 2


def test_what_revisions_one_after_the_other_do_not_reach_is_not_forgotten(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 44)
    world.run_for(65)
    lose_chain(world, 1)
    for revision in (2, 3):
        world.driver = world.started(GROUP.model_copy(update={"revision": revision}))
        world.driver.step()
        # It crashes before it has stored anything.
        world.submitted.clear()
    assert [each[1:] for each in world.unread] == [(0, 45), (0, 45)]


def test_a_newer_revision_tells_of_no_loss_where_the_chain_is_whole(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 44)
    world.run_for(80)
    world.driver = world.started(GROUP.model_copy(update={"revision": 2}))
    world.run_for(10)
    assert world.unread == []
    (info,) = world.topics()
    assert b"gone" not in read_pointer(world.store, TopicKey("raw", "events", info.named_id)).to_bytes()


def test_a_log_that_is_away_is_told_and_asked_again(world: LakeHarness) -> None:
    world.make("events")
    world.write("events", 300)
    world.dead = True
    world.run_for(3)
    assert world.away
    assert not world.back
    world.dead = False
    world.run_for(10)
    assert world.back == 1
    assert world.stored("events") == [(0, 200)]


def test_a_store_that_does_not_answer_holds_no_step_up(world: LakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would report nothing for so long that its guardian took it for a stall."""

    def away(*_: object, **__: object) -> None:
        raise Transient("no answer", system="s3")

    world.make("events")
    monkeypatch.setattr(world.store, "list", away)
    began_s = world.clock.monotonic_s()
    world.driver.step()
    assert world.clock.monotonic_s() == began_s
    assert [str(error) for error in world.away] == ["no answer (system='s3')"]


@pytest.mark.parametrize("together", [1, 3])
def test_random_writes_restarts_and_failures_leave_each_offset_in_one_cut(world: LakeHarness, together: int) -> None:
    chance = random.Random(5)
    world.slots, world.together = 2, together
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
        chain = ChainKey(TopicKey("raw", "events", info.named_id), 1, partition)
        assert sum(commit.n_records for commit in Chain(world.store, chain).commits()) == written[partition]
