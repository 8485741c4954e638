"""Rows that documents need and the database lacks: a state of the data, which stops nothing by itself."""

from __future__ import annotations

import pytest

from include.document.dead_letters import LookupLimit
from include.document.reading.lookup import MissingRow
from include.errors import Terminal
from include.log import topics
from include.log.publishing.dead_letter import DeadLetter
from include.log.requests.records import Request
from tests.support.documents.order_harness import APPLICATION, DEFINITION, TOPIC, OrderHarness, Process

ORDERS = 150


def missing(number: int) -> MissingRow:
    return MissingRow("partner", "partners", {"id": number})


@pytest.fixture
def world() -> OrderHarness:
    """150 orders of one partner, far more than `dead_run`."""
    made = OrderHarness(DEFINITION.model_copy(update={"rebuild_keys": 500}))
    made.furnish()
    for order_id in range(ORDERS):
        made.order(order_id)
    Process(made).settle(3)
    assert made.documents() == made.expected()
    return made


def test_a_partner_that_is_deleted_behind_many_orders_stops_nothing_and_all_come_when_it_is_back(
    world: OrderHarness,
) -> None:
    process = Process(world)
    assert process.start()
    gone = dict(world.tables.tables["partners"][0])
    world.delete("partners", 1)
    process.batches()
    letters = [DeadLetter.parse(r) for r in world.records(topics.dead(TOPIC, APPLICATION))]
    assert len(letters) == ORDERS
    assert all("no row of partners where id=1" in each.reason for each in letters)
    text = process.metrics.text()
    assert 'lyrebird_set_aside_total{application="assemble_orders",kind="a row is missing"} 150' in text, text
    before = len(world.records())
    gone["name"] = "Ada again"
    world.tables.tables["partners"].append(gone)
    world.capture.commit(("c", "partners", None, gone))
    process.batches()
    assert len(world.records()) - before == ORDERS
    assert world.documents() == world.expected()


def test_an_answer_says_how_many_documents_of_a_rebuild_lack_rows_also_over_a_restart(world: OrderHarness) -> None:
    world.tables.tables["partners"].pop(0)  # behind capture's back
    world.ask(Request("all", "rebuild", "test", 5))
    for _ in range(3):
        Process(world).settle(1)
    answer = world.answers()["all"]
    assert (answer.state, answer.note) == ("done", "150 documents set aside, as rows that they need are missing")


def test_look_ups_that_find_nothing_in_several_batches_stop_the_stage_before_the_last_is_committed() -> None:
    world = OrderHarness(DEFINITION.model_copy(update={"dead_run": 10}))
    world.furnish()
    process = Process(world)
    process.settle(3)
    for batch in range(2):
        for number in range(5):
            world.order(batch * 10 + number, partner_id=1_000 + number)
        process.batches()
    committed = dict(process.publisher.committed)
    world.order(99, partner_id=1_000)
    with pytest.raises(Terminal, match="almost all documents lack a row"):
        process.batches()
    assert process.publisher.committed == committed


def test_one_row_that_all_lack_never_stops_the_stage_and_neither_do_many_beside_good_documents() -> None:
    limit = LookupLimit(10)
    for _ in range(9):
        limit.batch(0, [missing(1)] * 100)
    assert limit.batches == 9
    limit.batch(1_000, [missing(n) for n in range(500)])
    assert limit.batches == 0
    for _ in range(2):
        limit.batch(0, [missing(n) for n in range(5)])
    limit.batch(0, [])
    with pytest.raises(Terminal):
        limit.batch(0, [missing(n) for n in range(5)])
