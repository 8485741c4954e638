"""More keys than a batch takes: written down as requests and worked off, whatever stops the process meanwhile."""

from __future__ import annotations

import itertools
import shlex
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.document import batch_keys as wanted
from include.document import overflow_requests as spread
from include.document import signals
from include.document.dead_letters import AssemblerLetters
from include.document.overflow_requests import key_text
from include.document.reading.lookup import MissingRow
from include.document.rebuild import parse_key
from include.log import topics
from include.log.control import ControlRecord
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from tests.support.documents.order_harness import DEFINITION, TOPIC, OrderHarness, Process, live

SMALL = DEFINITION.model_copy(update={"batch_keys": 3, "rebuild_keys": 2})
ALL = ("shop.orders", "shop.partners", "shop.regions")


@pytest.fixture
def world() -> OrderHarness:
    """Ten orders, all written."""
    made = OrderHarness(SMALL)
    made.furnish()
    for order_id in range(1, 11):
        made.order(order_id)
    Process(made).settle(12)
    assert made.documents() == made.expected()
    return made


def uncovered(world: OrderHarness) -> tuple[str, ...]:
    records = [r.value for r in world.records(topics.resolved(TOPIC)) if r.value]
    return ResolvedRecord.parse(records[-1]).uncovered


def written(world: OrderHarness, before: int) -> int:
    return len(world.records()) - before


def stale_until_covered(world: OrderHarness, process: Process) -> list[int]:
    """Beats until all is covered; how many documents were stale before each beat, and at the end."""
    stale = []
    while True:
        documents, expected = live(world.documents()), world.expected()
        stale.append(sum(documents.get(key) != body for key, body in expected.items()))
        if not uncovered(world):
            return stale
        beat(world, process)


def beat(world: OrderHarness, process: Process, times: int = 1) -> None:
    for _ in range(times):
        world.clock.advance(2)
        world.capture.heartbeat()
        process.batches()


def test_a_dimension_that_many_documents_show_is_worked_off_in_parts_and_named_until_then(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    before, parts = len(world.records()), [0]
    world.update("partners", 1, name="Ada & Co")
    while not parts[1:] or uncovered(world):
        beat(world, process)
        parts.append(written(world, before))
        assert uncovered(world) == (ALL if parts[-1] < 10 else ())
    assert all(later - earlier <= 3 for earlier, later in itertools.pairwise(parts))
    assert parts[-1] == 10
    assert world.documents() == world.expected()


def test_a_kill_between_the_parts_loses_none_of_them(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    before = len(world.records())
    world.update("regions", 1, name="high north")
    beat(world, process, 2)
    assert 3 < written(world, before) < 10
    for _ in range(4):
        Process(world).settle(1)
    assert written(world, before) == 10
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


def test_hours_of_signals_are_worked_off_in_parts_and_live_ones_go_on_beside_them(world: OrderHarness) -> None:
    for order_id in range(1, 11):
        world.order(order_id, "cancelled")
    process = Process(world)
    assert process.start()
    before = len(world.records())
    beat(world, process)
    assert written(world, before) == 3
    world.order(10, "completed")
    world.order(11)
    beat(world, process, 6)
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


def test_an_outage_is_caught_up_in_batches_of_bounded_size_though_each_is_killed_once() -> None:
    world = OrderHarness(DEFINITION.model_copy(update={"batch_changes": 30}))
    world.furnish()
    Process(world).settle(3)
    for number in range(400):
        world.order(1 + number % 40, ("completed", "pending", "cancelled")[number % 3])
    batches = 0
    while True:
        process = Process(world)
        assert process.start()
        after = process.planner.latest(process.at)
        plan = after.plan()
        size = sum(plan.ends[at] - plan.start[at] for at in plan.ends)
        assert size <= 30
        if not size:
            break
        process.runner.run(plan, lambda process=process, plan=plan: process.collect(plan))  # type: ignore[misc]
        batches += 1
    assert batches >= 400 // 30
    assert world.documents() == world.expected()


def test_a_truncated_table_leaves_tombstones_in_parts(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    before = len(world.records())
    world.tables.tables["orders"].clear()
    world.capture.commit(control=ControlRecord("truncate", "shop", "orders", world.capture.version + 1))
    beat(world, process)
    assert written(world, before) == 3
    assert uncovered(world) == ALL
    beat(world, process, 6)
    assert live(world.documents()) == {}
    assert written(world, before) == 10


def test_keys_that_a_rebuild_finds_in_the_topic_alone_go_in_parts_too(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    world.tables.tables["orders"].clear()  # behind capture's back
    world.ask(Request("r1", "rebuild", "test", 5))
    before, parts = len(world.records()), [0]
    for _ in range(8):
        beat(world, process)
        parts.append(written(world, before))
    assert all(later - earlier <= SMALL.rebuild_keys for earlier, later in itertools.pairwise(parts))
    assert live(world.documents()) == {}


@pytest.mark.parametrize("where", ["rows", "keys", "behind"])
def test_more_than_is_gathered_stands_for_all_documents(
    world: OrderHarness, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = {"rows": (signals, "MOST_ROWS"), "keys": (signals, "MOST_KEYS"), "behind": (wanted, "MOST_KEYS")}[
        where
    ]
    monkeypatch.setattr(module, name, 1)
    process = Process(world)
    assert process.start()
    for order_id in (1, 2):
        world.order(order_id, "cancelled", partner_id=2)
    for partner in (1, 2):
        world.update("partners", partner, name=f"new {partner}")
    beat(world, process)
    assert uncovered(world) == ALL
    rebuilds = [each for each in process.runner._rebuilds.open.values() if each.request.kind == "rebuild"]
    assert len(rebuilds) == 1
    beat(world, process, 12)
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


def test_while_a_rebuild_waits_to_begin_nobody_asks_for_another(
    world: OrderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "MOST_KEYS", 1)
    process = Process(world)
    assert process.start()
    world.ask(Request("mine", "rebuild", "test", 5))
    world.update("partners", 1, name="new")
    beat(world, process)
    assert not [id_ for id_ in world.answers() if id_.startswith("signals-")]
    assert uncovered(world) == ALL
    stale = stale_until_covered(world, process)
    assert stale[:5] == [8, 6, 4, 2, 0], "two keys a batch; the look at the topic follows"
    assert world.documents() == world.expected()


def test_what_waits_for_a_rebuild_of_somebody_is_named_after_a_restart_too(
    world: OrderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "MOST_KEYS", 1)
    process = Process(world)
    assert process.start()
    world.ask(Request("mine", "rebuild", "test", 5))
    world.ask(Request("first", "repair", "test", 5, keys=("10",)))
    beat(world, process)
    assert uncovered(world) == (), "it waits for its turn, and repeats what documents have"
    for order_id in (1, 2, 3, 4):
        world.order(order_id, "cancelled")
    world.ask(Request("second", "repair", "test", 6, keys=("10",)))
    world.update("partners", 1, name="new")
    beat(world, process)
    assert world.answers()["mine"].state == "accepted", "what goes before it is not done"
    process = Process(world)
    assert process.start()
    beat(world, process)
    assert uncovered(world) == ALL
    assert stale_until_covered(world, process)[-1] == 0
    assert world.documents() == world.expected()


def test_a_rebuild_that_had_begun_before_a_change_makes_it_good_for_none_of_its_pages(
    world: OrderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "MOST_KEYS", 1)
    process = Process(world)
    assert process.start()
    world.ask(Request("mine", "rebuild", "test", 5))
    beat(world, process)
    assert world.answers()["mine"].state == "running"
    world.update("partners", 1, name="new")
    beat(world, process)
    assert [id_ for id_ in world.answers() if id_.startswith("signals-")]
    assert uncovered(world) == ALL
    assert stale_until_covered(world, process)[-1] == 0
    assert world.documents() == world.expected()


def test_requests_for_parts_go_before_a_rebuild_that_was_asked_for_earlier(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    world.ask(Request("all", "rebuild", "test", 5))
    beat(world, process)
    world.ask(Request("one", "repair", "test", world.clock.now_us(), keys=("10",)))
    beat(world, process)
    assert (world.answers()["one"].state, world.answers()["all"].state) == ("done", "running")


def test_two_batches_cut_at_one_resolved_record_leave_out_keys_under_different_ids(world: OrderHarness) -> None:
    process = Process(world)
    assert process.start()
    world.update("partners", 1, name="Ada & Co")
    beat(world, process)
    first = set(world.answers())
    keys = tuple(str(n) for n in range(20, 30))
    world.ask(Request("many", "repair", "test", 0, keys=keys))
    beat(world, process, 14)
    assert set(world.answers()) > first
    assert world.documents() == {**world.expected(), **dict.fromkeys(range(20, 30))}


TEXTS = st.text(max_size=40)


@given(st.lists(st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1)), max_size=30, unique=True), st.integers(1, 7))
def test_every_key_is_asked_for_once_and_reads_back(keys: list[tuple[str, int]], most: int) -> None:
    taken = {"signals-7-1"}
    requests = spread.spread(keys, 7, most, "app", 1, taken.__contains__)
    assert [parse_key(text, [False, True]) for each in requests for text in each.keys] == keys
    assert all(len(each.keys) <= most for each in requests)
    ids = [each.id for each in requests]
    assert len(set(ids)) == len(ids)
    assert taken.isdisjoint(ids)


@pytest.mark.parametrize("code", ["x" * 600, "it's", "-1"])
def test_what_was_set_aside_tells_a_command_that_names_its_key_however_it_is_written(code: str) -> None:
    aside = AssemblerLetters(SMALL, SimpleNamespace(topic="t"), None)  # type: ignore[arg-type]
    reason = aside._reason({"code": code, "leg": 7}, [MissingRow("policy", "policies", {"id": 4})])
    *_, key = shlex.split(reason.partition("run `")[2].rstrip("`"))
    assert parse_key(key, [False, True]) == (code, 7)


def test_a_request_stays_small_however_long_the_keys_are() -> None:
    keys = [("ü" * 50_000 + str(n),) for n in range(5)]
    requests = spread.spread(keys, 7, 1_000, "app", 1, lambda _: False)
    assert [len(each.keys) for each in requests] == [1, 1, 1, 1, 1]
    assert [parse_key(text, [False]) for each in requests for text in each.keys] == keys
    assert key_text(("a", 1)) == '["a",1]'
