"""Chunks of a large batch are made elsewhere: the same documents, the same letters, the same load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.document import batch, making
from include.document.making import ChunkResult, DocumentKey, MakePlan, chunks_of, evenly, made_with
from include.errors import Transient
from include.log import topics
from include.record.position import SourcePosition
from tests.support.documents.order_harness import APPLICATION, DEFINITION, TOPIC, OrderHarness, Process, live
from tests.unit.document.test_columns import alter


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (making, batch):
            patch.setattr(module, "CHUNK", 10)
        yield


class Elsewhere:
    """Tasks: they read tables of their own, and know of the driver's only what the plan says."""

    def __init__(self, world: OrderHarness) -> None:
        self.world, self.asked, self.faults = world, list[int](), 0
        self.positions: list[SourcePosition | None] = []

    def __call__(
        self, plan: MakePlan, position: SourcePosition | None, keys: Sequence[DocumentKey]
    ) -> Iterator[list[ChunkResult]]:
        self.positions.append(position)
        for share in evenly(keys, 2):
            if self.faults:
                self.faults -= 1
                raise Transient("the server went away", system="mysql")
            self.asked.append(len(share))
            yield list(reversed(made_with(self.world.tables, plan, position, share)))


def placed(**changes: Any) -> tuple[OrderHarness, Elsewhere, Process]:
    world = OrderHarness(DEFINITION.model_copy(update={"read_rows_per_s": 0, "rebuild_keys": 100, **changes}))
    world.furnish()
    elsewhere = Elsewhere(world)
    process = Process(world, make=elsewhere)
    process.settle(2)
    return world, elsewhere, process


@given(st.integers(0, 200), st.integers(1, 7))
def test_parts_are_even_and_have_every_key_once(count: int, parts: int) -> None:
    keys = [(n,) for n in range(count)]
    for found in (evenly(keys, parts), chunks_of(keys)):
        assert [key for part in found for key in part] == keys
        assert max(map(len, found), default=0) - min(map(len, found), default=0) <= 1
    assert all(len(chunk) <= making.CHUNK for chunk in chunks_of(keys))


def test_all_but_the_first_chunk_are_made_elsewhere_not_before_the_cut() -> None:
    world, elsewhere, process = placed()
    for order_id in range(1, 48):
        world.order(order_id)
    process.batches()
    assert live(world.documents()) == world.expected()
    assert elsewhere.asked == [18, 19]
    (position,) = elsewhere.positions
    assert position is not None
    assert position == process.plans[-1].cut.position  # type: ignore[union-attr]


def test_one_further_chunk_is_not_worth_a_job() -> None:
    world, elsewhere, process = placed()
    for order_id in range(1, 20):
        world.order(order_id)
    process.batches()
    assert live(world.documents()) == world.expected()
    assert elsewhere.asked == []


def test_what_is_missing_and_what_does_not_fit_is_dealt_with_as_ever() -> None:
    world, elsewhere, process = placed()
    for order_id in range(1, 40):
        world.order(order_id)
    world.order(40, partner_id=999)
    world.order(41)
    alter(world, "lines", "quantity", "bigint")
    world.tables.tables["lines"][-1]["quantity"] = 2**32
    process.batches()
    assert elsewhere.asked
    found = live(world.documents())
    assert set(found) == {*range(1, 40), 41}
    assert [line["quantity"] for line in found[41]["lines"]][-1] == 2**32
    (letter,) = world.records(topics.dead(TOPIC, APPLICATION))
    assert b"999" in (letter.value or b"")


def test_rows_that_were_read_elsewhere_are_counted_and_paid_for() -> None:
    world, elsewhere, process = placed(read_rows_per_s=50)
    for order_id in range(1, 60):
        world.order(order_id)
    began_s, before = world.clock.monotonic_s(), process.runner._load.rows
    process.batches()
    world.capture.heartbeat()
    process.batches()
    rows = process.runner._load.rows - before
    assert rows > 59 * 2
    assert sum(elsewhere.asked) == 49
    assert world.clock.monotonic_s() - began_s >= rows / 50 - 1.1


def test_a_task_that_lost_its_server_is_a_batch_that_is_tried_again() -> None:
    world, elsewhere, process = placed()
    elsewhere.faults = 2
    for order_id in range(1, 40):
        world.order(order_id)
    process.batches()
    assert live(world.documents()) == world.expected()
    assert (elsewhere.faults, sum(elsewhere.asked)) == (0, 29)
