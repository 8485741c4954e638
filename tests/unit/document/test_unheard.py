"""Tables that documents show and that signal nothing: what changes in them is counted, and a person is told."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.document.incidents import DocumentIncidents
from include.document.signals import Inputs
from include.log import topics
from tests.support.documents.order_harness import TOPIC, OrderHarness, Process, live
from tests.support.run_folder import MemoryRunFolder

LINES, POLICIES = (topics.change("shop", "shop", table) for table in ("lines", "policies"))


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness()
    made.furnish()
    return made


@pytest.fixture
def running(world: OrderHarness) -> Process:
    process = Process(world)
    process.settle(4)
    return process


def test_changes_and_deletes_of_what_documents_show_are_counted_and_alter_nothing(
    world: OrderHarness, running: Process
) -> None:
    world.order(1, policy_id=1)
    running.batches()
    before = world.documents()
    assert sum(running.runner.unheard.values()) == 0, "rows that come with their order are none"
    world.update("lines", 1, quantity=5)
    world.update("policies", 1, name="mild")
    world.delete("lines", 1)
    running.batches()
    assert world.documents() == before
    assert running.runner.unheard == {"lines": 2, "policies": 1}
    text = running.metrics.text()
    assert 'lyrebird_unheard_total{application="assemble_orders",kind="lines"} 2.0' in text
    counts = running.signals[-1].counts
    assert counts["read"] == sum(counts[each] for each in ("applied", "superseded", "filtered", "set_aside"))


def test_a_change_of_a_column_that_no_document_shows_is_none(world: OrderHarness, running: Process) -> None:
    world.order(1)
    running.batches()
    world.update("lines", 1, id=1)
    running.batches()
    assert not running.runner.unheard


def test_an_assembler_that_begins_to_count_writes_nothing_anew(
    world: OrderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(Inputs, "unheard", lambda _: {})
        process = Process(world)
        process.settle(4)
        world.order(1)
        process.batches()
    world.update("lines", 1, quantity=5)
    world.capture.heartbeat()
    process = Process(world)
    start = process.runner.start()
    assert start is not None
    assert {LINES, POLICIES} <= start.keys()
    assert process.runner._own_request is None
    assert process.start()
    process.batches()
    assert not process.runner.unheard, "what was before it began is not counted"
    world.order(2)
    world.update("lines", 1, quantity=6)
    process.batches()
    assert process.runner.unheard == {"lines": 1}
    assert live(world.documents()).keys() == {1, 2}


def test_the_first_change_is_an_incident_that_lasts_until_the_table_is_declared() -> None:
    folder, clock = MemoryRunFolder(), ManualClock(5_000_000)
    incidents = DocumentIncidents(TOPIC, ["lines", "policies"], folder, clock)
    assert incidents.after_batch({}) == []
    (first,) = incidents.after_batch({"lines": 2})
    clock.advance(9)
    (again,) = incidents.after_batch({"lines": 3})
    assert again["id"] == first["id"], "one mail"
    assert again["text"].startswith("5 rows of lines were changed or deleted, which signals nothing")
    assert again["fix"] == f"lyrebird audit documents {TOPIC} --repair"
    (kept,) = DocumentIncidents(TOPIC, ["lines"], folder, clock).after_batch({})
    assert kept == again
    assert DocumentIncidents(TOPIC, [], folder, clock).after_batch({}) == []
    assert folder.files["incidents.json"]["open"] == {}
