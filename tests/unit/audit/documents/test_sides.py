"""Up to where a topic of documents speaks, and what is read of it on from there."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.documents.judge import NewestRecord
from include.audit.documents.sides import TopicDocuments, complete
from include.document.behind import values_text
from include.errors import Transient
from include.record.codec import Decoder
from tests.support.documents.order_harness import TOPIC, OrderHarness, Process

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness()
    made.furnish()
    return made


@pytest.fixture
def process(world: OrderHarness) -> Process:
    running = Process(world)
    running.settle(4)
    return running


class Beating:
    """A reader by whose looks the world goes on."""

    def __init__(self, process: Process) -> None:
        self._process, self.looks = process, 0

    def __getattr__(self, name: str) -> Any:
        if name == "begin_offsets":
            self.looks += 1
            world = self._process.world
            world.clock.advance(2)
            world.capture.heartbeat()
            self._process.batches()
        return getattr(self._process.reader, name)


def test_a_record_that_came_after_the_ends_speaks_for_all_below_them(world: OrderHarness, process: Process) -> None:
    world.order(1)
    process.batches()
    before = process.plans[-1].cut
    position, ends = complete(Beating(process), TOPIC, "shop", world.clock, 60)
    assert len(world.records(TOPIC)) == 1
    assert ends == process.reader.end_offsets(TOPIC)
    assert before is not None
    assert position.covers(before.position)


def test_while_documents_may_lack_changes_of_a_table_nothing_is_compared(world: OrderHarness, process: Process) -> None:
    world.capture.uncovered = ("shop.partners",)
    with pytest.raises(Transient, match="does not cover all tables") as told:
        complete(Beating(process), TOPIC, "shop", world.clock, 20)
    assert told.value.details["uncovered"] == ["shop.partners"]
    world.capture.uncovered = ()
    complete(Beating(process), TOPIC, "shop", world.clock, 20)


def test_an_assembler_that_stands_still_is_waited_for_and_named(world: OrderHarness, process: Process) -> None:
    with pytest.raises(Transient, match="has not come to the database's position within 20 s"):
        complete(process.reader, TOPIC, "shop", world.clock, 20)


def test_only_keys_that_are_asked_about_are_kept_and_what_nobody_can_read_is_counted(
    world: OrderHarness, process: Process
) -> None:
    at = complete(Beating(process), TOPIC, "shop", world.clock, 60)
    wanted, other = values_text((1,)), values_text((2,))
    side = TopicDocuments(
        Beating(process),
        TOPIC,
        "shop",
        Decoder(world.registry.schema),
        {wanted: NewestRecord()},
        at,
        world.clock,
        60,
    )
    for order_id in (1, 2):
        world.order(order_id)
    process.batches()
    writer = world.log.writer("by hand")
    writer.begin()
    writer.append(TOPIC, b"no key", b"no body", partition=0)
    writer.commit()
    found = side.newest([wanted, other], at[0])
    assert found.keys() == {wanted}
    assert (found[wanted].body or {})["order_id"] == 1
    assert (side.unreadable, set(side._stands)) == (1, {wanted})
