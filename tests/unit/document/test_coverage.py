"""What the documents' resolved topic leaves out, and how documents heal that were stale, wrong or incomplete."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from include.document.definition import ComputedField
from include.document.signals import Signals
from include.errors import Terminal, Transient
from include.log import topics
from include.log.control import ControlRecord
from include.log.publishing.dead_letter import DeadLetter
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from tests.support.documents.order_harness import APPLICATION, DEFINITION, TOPIC, OrderHarness, Process, live

ALL = ("shop.orders", "shop.partners", "shop.regions")


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


def uncovered(world: OrderHarness) -> tuple[str, ...]:
    """Of the newest resolved record of the documents."""
    records = [r.value for r in world.records(topics.resolved(TOPIC)) if r.value]
    return ResolvedRecord.parse(records[-1]).uncovered


def letters(world: OrderHarness) -> list[DeadLetter]:
    return [DeadLetter.parse(r) for r in world.records(topics.dead(TOPIC, APPLICATION))]


def no_line_over_nine(body: Mapping[str, Any]) -> int:
    """A hook that fails on some documents."""
    if any(line["quantity"] > 9 for line in body["lines"]):
        raise ValueError("too many")
    return 1


def test_a_signal_table_that_capture_does_not_cover_is_named_and_one_that_is_only_read_is_not(
    world: OrderHarness, running: Process
) -> None:
    world.capture.uncovered = ("shop.lines", "shop.partners", "shop.payments", "other.orders")
    world.order(1)
    running.batches()
    assert uncovered(world) == ("shop.partners",)
    assert world.documents() == world.expected()
    world.capture.uncovered = ()
    world.order(2)
    running.batches()
    assert uncovered(world) == ()


def test_documents_heal_when_an_uncovered_fact_table_has_been_read_again(world: OrderHarness, running: Process) -> None:
    first, second = world.order(1), world.order(2)
    running.batches()
    world.capture.uncovered = ("shop.orders",)
    rows = world.tables.tables["orders"]
    rows[0] = {**first, "state": "cancelled"}
    rows.remove(second)
    world.capture.heartbeat()
    running.batches()
    assert uncovered(world) == ("shop.orders",)
    assert live(world.documents()) != world.expected()
    floor = world.capture.version + 1
    world.capture.commit(("r", "orders", None, rows[0]), control=ControlRecord("gap", "shop", "orders", floor))
    world.capture.uncovered = ()
    world.capture.heartbeat()
    running.batches()
    assert uncovered(world) == ()
    assert world.documents() == {2: None, **world.expected()}


def test_documents_heal_when_an_uncovered_signal_table_has_been_read_again(
    world: OrderHarness, running: Process
) -> None:
    world.order(1)
    running.batches()
    partner = {**world.tables.tables["partners"][0], "name": "unheard"}
    world.tables.tables["partners"][0] = partner
    world.capture.commit(("r", "partners", None, partner))
    running.batches()
    assert world.documents() == world.expected()


def test_no_table_that_signals_is_covered_until_an_empty_start_has_written_every_key(world: OrderHarness) -> None:
    for order_id in range(1, 8):
        world.order(order_id)
    process = Process(world)
    assert process.start()
    seen = []
    for _ in range(6):
        world.clock.advance(2)
        world.capture.heartbeat()
        process.batches()
        seen.append((len(world.documents()), uncovered(world)))
    assert seen[0] == (2, ALL), "two keys a batch"
    assert seen[-1] == (7, ())
    assert all(named == (ALL if done < 7 else ()) for done, named in seen[:3] + seen[-1:])
    assert world.documents() == world.expected()


def test_a_rebuild_that_someone_asks_for_takes_nothing_away_from_what_is_covered(
    world: OrderHarness, running: Process
) -> None:
    for order_id in range(1, 8):
        world.order(order_id)
    running.batches()
    world.ask(Request("r1", "rebuild", "test", 5))
    world.clock.advance(2)
    world.capture.heartbeat()
    running.batches()
    assert world.answers()["r1"].state == "running"
    assert uncovered(world) == ()


def test_a_hook_that_fails_sets_its_document_aside_and_the_rest_goes_on() -> None:
    computed = {"odd": ComputedField(hook=f"{__name__}.no_line_over_nine", type="long")}
    world = OrderHarness(DEFINITION.model_copy(update={"computed": computed}))
    world.furnish()
    process = Process(world)
    process.settle(2)
    world.order(1)
    row = world.order(2)
    world.tables.tables["lines"][-1]["quantity"] = 10
    world.order(3)
    process.batches()
    assert set(world.documents()) == {1, 3}
    (letter,) = letters(world)
    assert "odd: its hook failed: ValueError: too many" in letter.reason
    world.tables.tables["lines"][1]["quantity"] = 9
    world.update("orders", row["id"], policy_id=1)
    process.batches()
    assert set(world.documents()) == {1, 2, 3}
    assert len(letters(world)) == 1


def test_a_row_whose_value_does_not_fit_is_set_aside_and_heals_with_its_next_signal(
    world: OrderHarness, running: Process
) -> None:
    row = world.order(1)
    world.tables.tables["lines"][-1]["price"] = Decimal("1.005")
    running.batches()
    assert world.documents() == {}
    assert len(letters(world)) == 1
    world.tables.tables["lines"][-1]["price"] = Decimal("1.00")
    world.update("orders", row["id"], policy_id=1)
    running.batches()
    assert world.documents() == world.expected()
    assert len(letters(world)) == 1


def test_a_fact_table_that_is_dropped_leaves_tombstones_though_nothing_can_be_read_of_it(
    world: OrderHarness, running: Process
) -> None:
    for order_id in (1, 2):
        world.order(order_id)
    running.batches()
    world.order(3)
    gone = world.tables.tables.pop("orders")
    running.batches()
    assert world.documents()[3] is None, "signalled before the drop, read after it"
    floor = world.capture.version + 1
    world.capture.commit(control=ControlRecord("drop", "shop", "orders", floor))
    running.batches()
    assert world.documents() == {1: None, 2: None, 3: None}
    world.tables.tables["orders"] = []
    world.transaction(("orders", {**gone[0], "id": 7}))
    running.batches()
    assert live(world.documents()) == world.expected()
    assert set(world.expected()) == {1}


def test_a_looked_up_table_that_is_dropped_stops_the_stage_and_is_named(world: OrderHarness, running: Process) -> None:
    world.order(1)
    del world.tables.tables["partners"]
    with pytest.raises(Terminal) as refused:
        running.batches()
    assert refused.value.details["table"] == "partners"


class Lost:
    """A writer whose first commits fail."""

    def __init__(self, writer: Any, failures: list[int]) -> None:
        self._writer, self._failures = writer, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def commit(self, *arguments: Any) -> None:
        if self._failures and arguments:
            self._failures.pop()
            raise Transient("away", system="kafka")
        self._writer.commit(*arguments)


def test_what_a_batch_sets_aside_counts_once_however_often_it_is_tried() -> None:
    world = OrderHarness()
    world.furnish()
    failures: list[int] = []
    process = Process(world, wrap=lambda writer: Lost(writer, failures))
    process.settle(2)
    for order_id in range(1, 4):
        world.order(order_id, partner_id=99)
        world.capture.spoil("orders", b"rubbish")
    failures += [1] * 5  # 3 set aside in each of 6 tries: over the limit of 10 if tries counted
    process.batches()
    assert failures == []
    assert len(letters(world)) == 3
    assert process.runner._aside.limit.dead == 3
    assert process.runner._aside.lookups.documents == 3


def test_who_stood_still_for_longer_than_deletes_are_kept_writes_all_anew_and_says_so_until_then(
    world: OrderHarness,
) -> None:
    for order_id in (1, 2, 3):
        world.order(order_id)
    Process(world).settle(4)
    # Deleted meanwhile; the log has forgotten both envelope and tombstone.
    del world.tables.tables["orders"][0]
    world.clock.advance(8 * 86_400)
    for _ in range(2):
        # The first of these dies before it has written anything.
        process = Process(world)
        assert process.start()
    process.settle(1)
    assert uncovered(world) == ALL
    process.settle(4)
    assert world.documents() == {1: None, **world.expected()}
    assert uncovered(world) == ()
    before = len(world.records())
    Process(world).settle(4)
    assert len(world.records()) == before


def test_an_assembler_does_not_start_on_a_documents_topic_that_has_grown(world: OrderHarness) -> None:
    for order_id in range(1, 31):
        world.order(order_id)
    Process(world).settle(8)
    world.log.grow(TOPIC, 9)
    # Declared as it is now, as somebody who was told of another number would.
    with pytest.raises(Terminal, match=r"has grown.*written anew") as refused:
        Process(world).publisher.ensure(9)
    assert (refused.value.details["partitions"], refused.value.details["before"]) == (9, 2)


def test_who_stood_still_for_a_shorter_time_goes_on_from_the_log(world: OrderHarness) -> None:
    world.order(1)
    Process(world).settle(4)
    world.clock.advance(6 * 86_400)
    Process(world).settle(4)
    assert len(world.versions(1)) == 1


def test_how_long_deletes_are_kept_is_asked_of_the_log_and_not_of_our_policy(world: OrderHarness) -> None:
    world.order(1)
    Process(world).settle(4)
    world.log.configure(topics.change("shop", "shop", "orders"), {"delete.retention.ms": "86400000"})
    del world.tables.tables["orders"][0]
    world.clock.advance(2 * 86_400)
    Process(world).settle(4)
    assert world.documents() == {1: None}


@pytest.mark.parametrize(
    "forgets", [{"cleanup.policy": "delete"}, {"cleanup.policy": "compact,delete"}, {"delete.retention.ms": "86400000"}]
)
def test_a_documents_topic_that_forgets_is_refused(world: OrderHarness, forgets: dict[str, str]) -> None:
    world.log.admin().ensure(topics.document_spec(TOPIC, DEFINITION.partitions))
    world.log.configure(TOPIC, forgets)
    with pytest.raises(Terminal, match=f"--entity-name {TOPIC} --add-config {next(iter(forgets))}"):
        Process(world).start()


def test_a_documents_topic_that_was_made_anew_is_filled_again(world: OrderHarness) -> None:
    for order_id in (1, 2, 3):
        world.order(order_id)
    Process(world).settle(4)
    world.log.admin().delete(TOPIC)
    assert world.documents() == {}
    process = Process(world)
    process.settle(1)
    assert uncovered(world) == ALL
    process.settle(4)
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


@pytest.mark.parametrize("gone", [(topics.resolved(TOPIC),), (TOPIC, topics.resolved(TOPIC))], ids=["resolved", "both"])
def test_an_assembler_whose_offsets_nothing_speaks_for_any_more_writes_all_anew(
    world: OrderHarness, gone: tuple[str, ...]
) -> None:
    first, _ = world.order(1), world.order(2)
    # Offsets of all inputs are committed then, those of the control topic too.
    world.capture.commit(("r", "orders", None, first), control=ControlRecord("gap", "shop", "orders", 1))
    Process(world).settle(4)
    world.tables.tables["orders"].remove(first)
    for name in gone:
        world.log.admin().delete(name)
    process = Process(world)
    process.settle(1)
    assert uncovered(world) == ALL
    process.settle(4)
    assert live(world.documents()) == world.expected()
    assert uncovered(world) == ()


def made_anew(beats: int) -> OrderHarness:
    """A world whose documents' topic was deleted behind so many beats; since then capture is away."""
    world = OrderHarness()
    world.furnish()
    for order_id in (1, 2, 3):
        world.order(order_id)
    Process(world).settle(beats)
    world.log.admin().delete(TOPIC)
    return world


@pytest.mark.parametrize("beats", [1, 3, 4])
def test_an_assembler_notes_its_own_rebuild_before_anything_newer_is_resolved(beats: int) -> None:
    world = made_anew(beats)
    for _ in range(3):
        process = Process(world)
        assert process.start()
        process.batches()
        assert uncovered(world) == ALL
        assert any(each.state != "done" for each in world.answers().values())
    process.settle(8)
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


def test_an_assembler_says_nothing_of_a_batch_of_before_until_its_own_rebuild_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = made_anew(3)
    process = Process(world)
    assert process.start()
    world.capture.heartbeat()
    plan = process.planner.latest(process.at).plan()
    said = len(world.records(topics.resolved(TOPIC)))
    monkeypatch.setattr(process.publisher, "covers", lambda _: True)
    assert process.runner.run(plan, Signals) == {}
    assert len(world.records(topics.resolved(TOPIC))) == said
    process = Process(world)
    process.settle(8)
    assert world.documents() == world.expected()
