"""The durable steps of an assembler, with the process killed before and after each of them."""

from __future__ import annotations

import pytest

from include.errors import Transient
from include.log import topics
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from tests.support.documents.order_harness import APPLICATION, DEFINITION, TOPIC, OrderHarness, Process
from tests.support.faults.crash_points import CrashOfKafka, CrashPoint, Killed, crashing


def story(world: OrderHarness) -> None:
    """Something of everything: documents, tombstones, a dimension, a rebuild, a repair, rubbish."""
    for order_id in range(1, 5):
        world.order(order_id, policy_id=1)
    gone = world.order(9)
    world.delete("orders", gone["id"])
    world.update("partners", 1, name="Ada & Co")
    world.capture.spoil("orders", b"rubbish")
    world.ask(Request("all", "rebuild", "test", 5))
    world.ask(Request("two", "repair", "test", 6, keys=("2",)))


def check(world: OrderHarness, *, started: bool) -> None:
    """All is there once, the resolved topic says so, requests are done.

    Who starts empty after the story never met order 9, nor the rubbish.
    """
    documents = world.documents()
    assert {key: body for key, body in documents.items() if key != 9} == world.expected()
    assert documents.get(9, "never") == (None if started else "never")
    answers = world.answers()
    assert (answers["all"].state, answers["two"].state) == ("done", "done")
    dead = [r for name in world.log.admin().names() if name.endswith(".dead") for r in world.records(name)]
    assert len(dead) == started, "set aside once"
    ends = dict.fromkeys([(TOPIC, 0), (TOPIC, 1)], 0)
    for record in world.records(topics.resolved(TOPIC)):
        if record.value:
            resolved = ResolvedRecord.parse(record.value)
            ends.update(resolved.next_offsets)
    assert resolved.position.binlog.pos == world.capture.transactions
    reader = world.log.reader()
    for (topic, partition), end in ends.items():
        assert not list(reader.read(topic, partition, end, reader.end_offsets(topic)[partition]))


@pytest.mark.parametrize(
    ("after", "started", "batch_keys"),
    [(False, False, 1000), (True, False, 1000), (False, True, 1000), (True, True, 1000), (False, True, 2)],
    ids=["first start-before", "first start-after", "restart-before", "restart-after", "restart in parts-before"],
)
def test_a_kill_at_any_durable_call_loses_nothing_and_doubles_nothing(
    after: bool, started: bool, batch_keys: int
) -> None:
    calls: list[str] = []
    for at in range(1, 500):
        world = OrderHarness(DEFINITION.model_copy(update={"batch_keys": batch_keys}))
        world.furnish()
        if started:
            Process(world).settle(2)
        story(world)
        fuse = CrashPoint(at, after=after)
        try:
            Process(world, wrap=crashing(fuse)).settle()
        except Killed:
            calls.append(fuse.burnt or "")
            Process(world).settle()
        check(world, started=started)
        if fuse.burnt is None:
            break
    assert {"begin", "append", "next_offsets", "commit"} <= set(calls)
    assert len(calls) < 499, "a run got through"


@pytest.mark.parametrize("at", range(1, 30, 3))
def test_a_log_that_is_away_for_a_moment_is_written_to_again_from_the_start_of_the_batch(at: int) -> None:
    world = OrderHarness()
    world.furnish()
    Process(world).settle(2)
    story(world)
    fuse = CrashPoint(at, after=False, error=lambda name: Transient(name, system="kafka"))  # type: ignore[arg-type]
    Process(world, wrap=crashing(fuse)).settle()
    assert fuse.burnt is not None
    check(world, started=True)


def test_each_batch_that_is_committed_is_spoken_for_also_one_that_wrote_no_document() -> None:
    world = OrderHarness()
    world.furnish()
    process = Process(world)
    process.settle(2)
    world.order(1, "pending")
    process.batches()
    last = ResolvedRecord.parse([r.value for r in world.records(topics.resolved(TOPIC)) if r.value][-1])
    committed = {f"{topic}/{p}": offset for (topic, p), offset in process.publisher.committed.items()}
    assert process.publisher.resolved is not None
    assert process.publisher.resolved.state["committed"] == committed
    assert last.sequence == process.publisher.resolved.sequence


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "places",
    [[(TOPIC, 0)], [(TOPIC, 1)], [(TOPIC, 0), (topics.answers(TOPIC), 0)], [(topics.resolved(TOPIC), 0)]],
    ids=["first", "second", "first and answers", "resolved"],
)
def test_what_kafka_forgot_to_end_at_a_kill_is_ended_as_it_was_meant(
    places: list[tuple[str, int]], after: bool
) -> None:
    forgotten = 0
    for at in range(1, 500, 2):
        world = OrderHarness()
        world.furnish()
        Process(world).settle(2)
        story(world)
        fuse = CrashOfKafka(at, world.log, places, after=after)
        try:
            Process(world, wrap=crashing(fuse)).settle()
        except Killed:
            world.log.writer(f"{APPLICATION}.{TOPIC}.0").close()
            forgotten += bool(world.log.reader().unended([TOPIC, topics.answers(TOPIC), topics.resolved(TOPIC)]))
            world.log.forget()
            Process(world).settle()
        check(world, started=True)
        if fuse.burnt is None:
            break
    assert forgotten > 1, "some of these kills left a transaction open"
