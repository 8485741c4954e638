"""Whether a topic's writer has begun, by what is in the log: not yet is told from gone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from include.audit.begun import Traces, await_begun, require_begun, traces_of
from include.clock import ManualClock
from include.errors import NothingToJudge, Terminal
from include.log import topics
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from tests.support.documents.order_harness import TOPIC, OrderHarness, Process

pytestmark = pytest.mark.unit


def judge(traces: Traces) -> None:
    require_begun("joined", traces, start="Start the application join.", mend="Restart the application join.")


EMPTY, FULL = {0: 0, 1: 0}, {0: 7, 1: 0}


@pytest.mark.parametrize(
    "traces",
    [
        Traces(),
        Traces(held=EMPTY),
        Traces(held=EMPTY, resolved=True),
        Traces(resolved=True),
        # A source says what it is complete to; of this table it has written nothing.
        Traces(spoken={}, resolved=True),
    ],
)
def test_what_no_writer_has_begun_is_nothing_to_judge(traces: Traces) -> None:
    with pytest.raises(NothingToJudge, match=r"yet .*Start the application join\."):
        judge(traces)


@pytest.mark.parametrize(
    ("traces", "says"),
    [
        (Traces(spoken=FULL, resolved=True), "does not exist any more, though its writer says"),
        (Traces(held=EMPTY, spoken=FULL, resolved=True), "was made anew and is empty"),
        (Traces(beside=True), "does not exist any more, though its writer's state does"),
        (Traces(spoken={}, resolved=True, beside=True), "does not exist any more, though its writer's state does"),
        (Traces(held=FULL), "complete to is not told any more"),
        (Traces(held=EMPTY, beside=True), "complete to is not told any more"),
    ],
)
def test_what_is_gone_is_lost_and_not_nothing(traces: Traces, says: str) -> None:
    with pytest.raises(Terminal, match=says) as lost:
        judge(traces)
    assert not isinstance(lost.value, NothingToJudge)
    assert lost.value.fix == "Restart the application join."


@pytest.mark.parametrize(
    "traces",
    [
        Traces(held=FULL, spoken=FULL, resolved=True),
        # Complete to a position at which the topic has no record.
        Traces(held=EMPTY, spoken=EMPTY, resolved=True),
        Traces(held=EMPTY, spoken=EMPTY, resolved=True, beside=True),
        # Between a batch's transaction and that of its resolved record.
        Traces(held=FULL, resolved=True),
        Traces(held=EMPTY, resolved=True, beside=True),
    ],
)
def test_what_is_there_is_judged(traces: Traces) -> None:
    judge(traces)


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness()
    made.furnish()
    return made


def traces(world: OrderHarness, topic: str, beside: str = "") -> Traces:
    return traces_of(topic, world.log.reader(), world.log.admin(), beside)


def test_an_assembler_leaves_traces_from_its_first_batch_on(world: OrderHarness) -> None:
    assert traces(world, TOPIC) == Traces()
    process = Process(world)
    process.settle(4)
    world.order(1)
    process.batches()
    began = traces(world, TOPIC)
    assert began.resolved
    assert began.spoken is not None
    assert any(began.spoken.values())
    judge(began)
    world.log.admin().delete(TOPIC)
    with pytest.raises(Terminal, match="though its writer says what it has written"):
        judge(traces(world, TOPIC))
    world.log.admin().ensure(topics.document_spec(TOPIC, 2))
    with pytest.raises(Terminal, match="was made anew and is empty"):
        judge(traces(world, TOPIC))


def test_one_table_of_a_source_has_no_topic_yet_while_others_are_captured(world: OrderHarness) -> None:
    judge(traces(world, world.capture.topic("partners")))
    with pytest.raises(NothingToJudge, match="no such topic yet"):
        judge(traces(world, topics.change("shop", "shop", "new")))
    world.log.admin().delete(world.capture.topic("partners"))
    with pytest.raises(Terminal, match="though its writer says what it has written"):
        judge(traces(world, world.capture.topic("partners")))


def test_a_state_that_was_committed_proves_that_there_was_a_topic() -> None:
    log, name = MemoryLog(), topics.state("joined")
    log.admin().ensure(TopicSpec(name, 1, topics.policy(name)))
    assert not traces_of("joined", log.reader(), log.admin(), name).beside
    writer = log.writer("w")
    writer.begin()
    writer.append(name, b"join", b"{}", partition=0)
    writer.commit()
    with pytest.raises(Terminal, match="though its writer's state does"):
        judge(traces_of("joined", log.reader(), log.admin(), name))


class AsOfBefore:
    """An admin whose first answer is of before a topic was made."""

    def __init__(self, admin: Any, topic: str) -> None:
        self.admin, self.hidden = admin, {topic}

    def describe(self, topic: str) -> Any:
        return self.describe_all([topic]).get(topic)

    def describe_all(self, names: Collection[str]) -> dict[str, Any]:
        hidden, self.hidden = self.hidden, set()
        return {name: info for name, info in self.admin.describe_all(names).items() if name not in hidden}


def written(world: OrderHarness) -> None:
    process = Process(world)
    process.settle(4)
    world.order(1)
    process.batches()


def test_a_writer_that_begins_while_it_is_looked_at_is_not_lost(world: OrderHarness) -> None:
    written(world)
    admin: Any = AsOfBefore(world.log.admin(), TOPIC)
    judge(traces_of(TOPIC, world.log.reader(), admin))


class Meanwhile(ManualClock):
    """Something happens at its third sleep."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self.happens, self.sleeps = happens, 0

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        if self.sleeps == 3:
            self.happens()
        super().sleep(seconds)


def awaited(world: OrderHarness, clock: ManualClock) -> None:
    await_begun(TOPIC, world.log.reader(), world.log.admin(), clock, start="Start it.", mend="Restart it.")


def test_a_topic_that_is_made_anew_meanwhile_is_not_lost(world: OrderHarness) -> None:
    written(world)
    world.log.admin().delete(TOPIC)

    def filled() -> None:
        world.log.admin().ensure(topics.document_spec(TOPIC, 2))
        writer = world.log.writer("w")
        writer.begin()
        writer.append(TOPIC, b"k", b"v", partition=0)
        writer.commit()

    clock = Meanwhile(filled)
    awaited(world, clock)
    assert clock.sleeps == 3


def test_a_topic_that_stays_away_is_lost_and_one_that_never_was_is_not_waited_for(world: OrderHarness) -> None:
    clock = ManualClock()
    with pytest.raises(NothingToJudge, match=r"no such topic yet .*Start it\."):
        awaited(world, clock)
    assert clock.monotonic_s() == 0
    written(world)
    world.log.admin().delete(TOPIC)
    with pytest.raises(Terminal, match=r"though its writer says what it has written .*Restart it\."):
        awaited(world, clock)
    assert 20 <= clock.monotonic_s() < 30
