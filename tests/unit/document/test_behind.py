"""A change behind more keys than are gathered: the documents that it reaches are written anew, and no others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.document import batch_keys as wanted
from include.document.behind import Reach, WalkPlace, page, values_of, values_text, way
from include.document.definition import Hop
from include.document.reading.tables import MemoryTables
from include.log import topics
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from tests.support.documents.order_harness import DEFINITION, TOPIC, OrderHarness, Process, live
from tests.support.faults.crash_points import CrashPoint, Killed, crashing

SMALL = DEFINITION.model_copy(update={"batch_keys": 3, "rebuild_keys": 2})
PARTNER = "orders.partner_id = partners.id"
ALL = ("shop.orders", "shop.partners", "shop.regions")
REGION = f"{PARTNER}, partners.region_id = regions.id"


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    """Two keys are more than are gathered."""
    with mock.patch.object(wanted, "MOST_KEYS", 1):
        yield


def furnished(orders: int = 9, beats: int = 14) -> OrderHarness:
    """Three partners, two of them in one region; a third of the orders each."""
    world = OrderHarness(SMALL)
    world.furnish()
    world.insert("partners", name="Cid", secret="z", region_id=1)
    for order_id in range(1, orders + 1):
        world.order(order_id, partner_id=1 + order_id % 3)
    Process(world).settle(beats)
    assert world.documents() == world.expected()
    return world


def beat(world: OrderHarness, process: Process, times: int = 1) -> None:
    for _ in range(times):
        world.clock.advance(2)
        world.capture.heartbeat()
        process.batches()


def times(world: OrderHarness) -> dict[int, int]:
    """How often each document was written."""
    return {order_id: len(world.versions(order_id)) for order_id in world.documents()}


def uncovered(world: OrderHarness) -> tuple[str, ...]:
    return ResolvedRecord.parse([r.value for r in world.records(topics.resolved(TOPIC)) if r.value][-1]).uncovered


def open_ways(process: Process) -> list[str]:
    return [each.request.where for each in process.runner._rebuilds.open.values()]


def test_a_row_behind_too_many_keys_writes_the_documents_that_show_it_and_no_others() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    before = times(world)
    world.update("partners", 1, name="Ada & Co")
    beat(world, process)
    assert uncovered(world) == ALL
    beat(world, process, 4)
    assert world.documents() == world.expected()
    assert {key for key, count in times(world).items() if count != before[key]} == {3, 6, 9}
    assert uncovered(world) == ()


def test_a_way_of_two_steps_is_walked_back_step_by_step() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    before = times(world)
    world.update("regions", 1, name="high north")
    beat(world, process)
    assert open_ways(process) == [REGION]
    widest = 0
    for _ in range(10):
        beat(world, process)
        widest = max(widest, len(open_ways(process)))
    assert widest == 2, "no more are open than the way has steps"
    assert world.documents() == world.expected()
    assert {key for key, count in times(world).items() if count != before[key]} == {2, 3, 5, 6, 8, 9}
    assert uncovered(world) == ()


def test_each_batch_writes_a_page_and_the_answer_tells_how_far_it_is() -> None:
    world = furnished(24)
    process = Process(world)
    assert process.start()
    world.update("partners", 1, name="Ada & Co")
    beat(world, process)
    (id_,) = (id_ for id_ in world.answers() if id_.startswith("signals-"))
    told = []
    for _ in range(6):
        beat(world, process)
        answer = world.answers()[id_]
        told.append((answer.state, answer.done, answer.note))
    by = f"by {PARTNER}"
    assert told[0] == ("running", 2, f"{by}: 0 of 1 values")
    assert told[4] == ("done", 8, f"{by}: 1 of 1 values")
    assert [done for _, done, _ in told] == [2, 4, 6, 8, 8, 8]


def test_signals_of_few_keys_in_the_same_batch_are_written_at_once() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    world.update("partners", 1, name="Ada & Co")
    world.order(2, "cancelled", partner_id=3)
    process.batches()
    now, then = world.documents()[2], world.documents()[3]
    assert now is not None
    assert now["state"] == "cancelled"
    assert then is not None
    assert then["partner"] == {"name": "Ada"}


def test_a_change_of_what_waits_to_begin_is_one_with_it_and_one_of_what_has_begun_comes_after_it() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    world.update("partners", 1, name="first")
    process.batches()
    world.update("partners", 1, name="second")
    world.update("partners", 2, name="other")
    process.batches()
    assert sorted(key for r in process.runner._rebuilds.open.values() for key in r.request.keys) == ["[1]", "[2]"]
    beat(world, process)  # The first one begins.
    for name in ("third", "fourth", "fifth"):
        world.update("partners", 1, name=name)
        process.batches()
    assert len(open_ways(process)) <= 3
    beat(world, process, 14)
    assert world.documents() == world.expected()
    assert open_ways(process) == []


def test_while_a_rebuild_of_all_waits_to_begin_none_of_some_is_asked_for() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    world.ask(Request("mine", "rebuild", "test", 5))
    world.update("partners", 1, name="new")
    beat(world, process)
    assert not [id_ for id_ in world.answers() if id_.startswith("signals-")]
    assert uncovered(world) == ALL
    beat(world, process, 12)
    assert world.documents() == world.expected()
    assert uncovered(world) == ()


def test_a_way_that_the_definition_has_no_more_stands_for_all_documents() -> None:
    world = furnished()
    process = Process(world)
    assert process.start()
    world.update("regions", 1, name="high north")
    process.batches()
    lookups = {name: each for name, each in SMALL.lookups.items() if name != "region"}
    world.definition = SMALL.model_copy(update={"lookups": lookups, "signals": ["partners"]})
    world.inputs = type(world.inputs)(TOPIC, world.definition)
    before = times(world)
    Process(world).settle(9)
    assert {key for key, count in times(world).items() if count != before[key]} == set(range(1, 10))
    assert {id_: a.state for id_, a in world.answers().items() if a.state != "done"} == {}


@pytest.mark.parametrize("asked", [{"keys": ("[1]",)}, {"where": PARTNER}])
def test_nobody_else_asks_for_a_rebuild_of_some(asked: dict[str, str]) -> None:
    world = furnished()
    world.ask(Request("some", "rebuild", "test", 5, **asked))  # type: ignore[arg-type]
    Process(world).settle(2)
    assert world.answers()["some"].state == "refused"
    assert "repair" in world.answers()["some"].note


@pytest.mark.timeout(120)
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_durable_call_loses_no_key_and_no_request(after: bool) -> None:
    burnt: list[str] = []
    for at in range(1, 400):
        world = furnished(6, beats=5)
        world.update("regions", 1, name="high north")
        world.update("partners", 2, name="Bob & Co")
        fuse = CrashPoint(at, after=after)
        try:
            Process(world, wrap=crashing(fuse)).settle(10)
        except Killed:
            burnt.append(fuse.burnt or "")
            Process(world).settle(10)
        assert world.documents() == world.expected()
        assert {answer.state for answer in world.answers().values()} == {"done"}
        if fuse.burnt is None:
            break
    assert {"begin", "append", "next_offsets", "commit"} <= set(burnt)
    assert len(burnt) < 399, "a run got through"


def lived(world: OrderHarness, process: Process, *, start: bool = False) -> Process:
    """What runs after a beat: the process, or the next one."""
    try:
        assert not start or process.start()
        beat(world, process)
    except Killed:
        process = Process(world)
        assert process.start()
    else:
        assert uncovered(world) == ALL or live(world.documents()) == world.expected()
    return process


STEPS = st.one_of(
    st.tuples(st.just("rename partner"), st.integers(1, 3), st.integers(0, 99)),
    st.tuples(st.just("rename region"), st.integers(1, 2), st.integers(0, 99)),
    st.tuples(st.just("move partner"), st.integers(1, 3), st.integers(1, 2)),
    st.tuples(st.just("order"), st.integers(1, 9), st.integers(1, 3)),
    st.tuples(st.just("move order"), st.integers(0, 99), st.integers(1, 3)),
    st.tuples(st.just("delete order"), st.integers(0, 99), st.just(0)),
    st.tuples(st.just("rebuild"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("batches"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("kill"), st.integers(1, 40), st.booleans()),
)


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=40)
@given(st.lists(STEPS, min_size=3, max_size=25))
def test_what_changes_while_requests_are_worked_off_is_in_the_documents_in_the_end(
    steps: list[tuple[str, int, int]],
) -> None:
    world = OrderHarness(SMALL.model_copy(update={"rebuild_keys": 1}))
    world.furnish()
    world.insert("partners", name="Cid", secret="z", region_id=1)
    for order_id in range(1, 8):
        world.order(order_id, partner_id=1 + order_id % 3)
    process = Process(world)
    process.settle(12)
    for what, one, two in steps:
        rows = world.tables.tables["orders"]
        if what == "rename partner":
            world.update("partners", one, name=f"name {two}")
        elif what == "rename region":
            world.update("regions", one, name=f"name {two}")
        elif what == "move partner":
            world.update("partners", one, region_id=two)
        elif what == "order":
            world.order(one, partner_id=two)
        elif what == "move order" and rows:
            world.update("orders", rows[one % len(rows)]["id"], partner_id=two)
        elif what == "delete order" and rows:
            world.delete("orders", rows[one % len(rows)]["id"])
        elif what == "rebuild":
            world.ask(Request(f"mine-{one}", "rebuild", "test", 5))
        elif what == "batches":
            for _ in range(one):
                process = lived(world, process)
        elif what == "kill":
            fuse = CrashPoint(one, after=bool(two))
            process = Process(world, wrap=crashing(fuse))
            process = lived(world, process, start=True)
    for _ in range(120):
        before, process = process, lived(world, process)
        if process is before and not open_ways(process):
            break
    assert open_ways(process) == []
    assert live(world.documents()) == world.expected()
    assert uncovered(world) == ()


TEXTS = [(7,), ("a'[", b"\x00\xff", Decimal("1.10")), (2**64 - 1, "日本", -1), (1.5,)]


@pytest.mark.parametrize("values", TEXTS)
def test_values_read_back(values: tuple[object, ...]) -> None:
    assert values_of(values_text(values)) == values


def test_a_value_that_no_request_can_hold_is_told() -> None:
    with pytest.raises(TypeError, match="timedelta"):
        values_text((dt.timedelta(1),))


def test_a_way_reads_as_its_steps() -> None:
    hops = [Hop(table="b", where={"x": "m", "y": "n"}), Hop(table="c", where={"id": "c_id"})]
    assert way(DEFINITION.fact.model_copy(update={"table": "a"}), hops) == "a.m = b.x and a.n = b.y, b.c_id = c.id"


@pytest.mark.parametrize("order", [["order_id"], ["id", "order_id"]])
@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_pages_of_many_values_come_by_every_key(order: list[str], most: int) -> None:
    orders = [{"id": n or None, "order_id": n // 2, "partner_id": n % 5} for n in range(40)]
    tables = MemoryTables({"orders": orders}, {})
    hop = Hop(table="partners", where={"id": "partner_id"})
    reach, found = Reach((hop,), ((1,), (9,), (0,), (3,))), set()
    place: WalkPlace = (0, None)
    for _ in range(60):
        step = page(tables, DEFINITION.fact, order, reach, place, most)
        found |= set(step.found)
        assert len(step.found) <= most
        place = step.next
        if step.finished:
            break
    assert step.finished
    assert found == {(row["order_id"],) for row in orders if row["partner_id"] in (1, 0, 3)}


def test_a_walk_whose_order_was_altered_begins_its_value_anew() -> None:
    tables = MemoryTables({"orders": [{"id": n, "order_id": n, "partner_id": 1} for n in (1, 2)]}, {})
    reach = Reach((Hop(table="partners", where={"id": "partner_id"}),), ((1,),))
    assert page(tables, DEFINITION.fact, ["order_id"], reach, (0, (2, 2)), 9).found == [(1,), (2,)]


def test_texts_that_a_table_between_holds_equal_are_all_followed() -> None:
    partners = [{"code": code, "region_id": 1} for code in ("a", "A", "b")]
    tables = MemoryTables({"partners": partners}, {}, fold=str.lower)
    hops = (Hop(table="partners", where={"code": "partner"}), Hop(table="regions", where={"id": "region_id"}))
    assert sorted(page(tables, DEFINITION.fact, [], Reach(hops, ((1,),)), (0, None), 9).found) == [
        ("A",),
        ("a",),
        ("b",),
    ]
