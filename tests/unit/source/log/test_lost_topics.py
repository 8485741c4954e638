"""A table's topic that somebody deletes: its rows are read again, and no resolved record covers it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Collection
from itertools import count
from typing import Any

import pytest

from include.errors import Restart
from include.log.ports import TopicInfo, TopicSpec
from include.log.topics import document_spec, source_resolved
from include.source.log.direct_log import DirectLog
from include.source.state.capture_state import CaptureState
from tests.support.source.crash_harness import TOPIC, CrashHarness

ANEW = document_spec(TOPIC, 3)
BEFORE = 8


def lose(world: CrashHarness, made_anew: TopicSpec | None = None) -> int:
    """Somebody deletes the table's topic, and may make it again; the offset of the next resolved record."""
    world.log.admin().delete(TOPIC)
    if made_anew is not None:
        world.log.admin().ensure(made_anew)
    return world.log.reader().end_offsets(source_resolved("s"))[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("made_anew", [None, ANEW], ids=["gone", "made anew"])
def test_the_table_of_a_lost_topic_is_read_again(seed: int, made_anew: TopicSpec | None) -> None:
    world = CrashHarness(seed)
    assert world.session(until=BEFORE)
    gaps = kinds(world).count("gap")
    since = lose(world, made_anew)
    assert world.session(until=24)
    world.is_honest(since)
    assert kinds(world).count("gap") == gaps + 1


def test_a_topic_that_stays_is_left_alone() -> None:
    world = CrashHarness(1)
    assert world.session(until=BEFORE)
    before = world.log.admin().describe(TOPIC), kinds(world).count("gap")
    assert world.session(until=24)
    world.is_honest()
    assert (world.log.admin().describe(TOPIC), kinds(world).count("gap")) == before


@pytest.mark.timeout(120)
@pytest.mark.parametrize("older", [False, True], ids=["ids kept", "by a version that kept no ids"])
def test_a_kill_at_any_step_after_the_loss_leaves_every_resolved_record_true(
    monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    written = CaptureState.to_json
    for at in count(1, 2 if older else 4):
        world = CrashHarness(at)
        with monkeypatch.context() as version:
            if older:
                version.setattr(CaptureState, "to_json", lambda state: written(state) | {"topics": {}})
            assert world.session(until=BEFORE)
        since = lose(world)
        killed = not world.session(at, until=24)
        assert not killed or world.session(until=24)
        world.is_honest(since)
        if not killed:
            break
    assert at > 20


def test_a_topic_that_is_made_anew_under_a_running_capture_ends_its_session() -> None:
    world = CrashHarness(2)
    assert world.session(until=BEFORE)
    looks = count()

    def check() -> None:
        if next(looks) == 3:
            lose(world, ANEW)
            world.clock.advance(61)
        for thread in threading.enumerate():
            if thread.name == "topics":
                thread.join(10)

    world._upstream.check = check  # type: ignore[method-assign]
    with pytest.raises(Restart) as told:
        world.session(until=24)
    assert told.value.details["topic"] == TOPIC
    # What was committed within the minute before speaks of the topic that is gone.
    since = world.log.reader().end_offsets(source_resolved("s"))[0]
    assert world.session(until=24)
    world.is_honest(since)


def test_the_stream_goes_on_while_it_asks_for_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CrashHarness(2)
    assert world.session(until=BEFORE)
    checks, asked, answer = count(), threading.Event(), threading.Event()
    topics = DirectLog.topics

    def slow(log: DirectLog, names: Collection[str]) -> dict[str, TopicInfo]:
        asked.set()
        assert answer.wait(30)
        return topics(log, names)

    def check() -> None:
        if next(checks) == 3:
            monkeypatch.setattr(DirectLog, "topics", slow)
            world.clock.advance(61)

    world._upstream.check = check  # type: ignore[method-assign]
    assert world.session(until=24)
    assert asked.wait(10)
    assert not answer.is_set()
    answer.set()
    world.is_honest()


def test_the_first_event_waits_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CrashHarness(2)
    assert world.session(until=BEFORE)
    told: list[str] = []
    topics, flow = DirectLog.topics, world._upstream.flow

    def slow(log: DirectLog, names: Collection[str]) -> dict[str, TopicInfo]:
        threading.Event().wait(0.2)
        told.append("topics" if names else "none more")
        return topics(log, names)

    def begun(*arguments: Any) -> Any:
        told.append("stream")
        return flow(*arguments)

    monkeypatch.setattr(DirectLog, "topics", slow)
    monkeypatch.setattr(world._upstream, "flow", begun)
    assert world.session(until=24)
    assert told == ["topics", "none more", "stream"]


def kinds(world: CrashHarness) -> list[str]:
    return [raw["kind"] for raw in world._controls()]
