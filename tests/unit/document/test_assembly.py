"""From signals to documents, over ports in memory: what is written, what is not, with which version."""

from __future__ import annotations

import pytest

from include.document.reading.read_after import ReplicaBehind
from include.document.signals import Signals
from include.errors import Fenced, Terminal, Transient
from include.log import topics
from include.log.control import ControlRecord
from include.log.ports import TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from include.record.version import from_headers
from tests.support.documents.order_harness import APPLICATION, DEFINITION, TOPIC, OrderHarness, Process, live


@pytest.fixture
def world() -> OrderHarness:
    made = OrderHarness()
    made.furnish()
    return made


@pytest.fixture
def running(world: OrderHarness) -> Process:
    process = Process(world)
    process.settle(2)
    return process


def test_an_empty_start_writes_every_order_that_the_database_has(world: OrderHarness) -> None:
    for order_id in range(1, 8):
        world.order(order_id, policy_id=1 if order_id % 2 else None)
    world.order(8, "pending")
    Process(world).settle()
    assert world.documents() == world.expected()
    assert len(world.expected()) == 7


def test_an_empty_start_waits_for_a_resolved_record() -> None:
    assert not Process(OrderHarness()).start()


def test_a_final_row_becomes_a_document_with_its_signals_version(world: OrderHarness, running: Process) -> None:
    world.order(1, policy_id=1)
    signal = world.capture.version - 1  # the order's row is the last of its transaction, then comes the resolved record
    running.batches()
    assert world.documents() == world.expected()
    assert world.versions(1) == [signal]


def test_a_transient_row_writes_nothing(world: OrderHarness, running: Process) -> None:
    world.order(1, "pending")
    running.batches()
    assert world.documents() == {}
    assert running.signals[-1].counts["filtered"] >= 1


def test_the_newest_final_row_is_the_order_and_a_pending_change_does_not_show(
    world: OrderHarness, running: Process
) -> None:
    world.order(1)
    world.order(1, "cancelled", partner_id=2)
    world.order(1, "pending")
    running.batches()
    assert world.documents()[1] == world.expected()[1]
    assert world.living(1)["state"] == "cancelled"
    assert len(world.versions(1)) == 1, "signals of a batch are folded to the newest"


def test_a_tombstone_is_written_only_when_no_row_of_the_order_remains(world: OrderHarness, running: Process) -> None:
    first = world.order(1)
    second = world.order(1, "cancelled")
    running.batches()
    world.delete("orders", second["id"])
    running.batches()
    assert world.living(1)["row"] == first["id"]
    world.delete("orders", first["id"])
    running.batches()
    assert world.documents() == {1: None}


def test_a_deleted_final_row_beside_a_pending_one_is_skipped(world: OrderHarness, running: Process) -> None:
    first = world.order(1)
    running.batches()
    pending = world.order(1, "pending")
    world.delete("orders", first["id"])
    running.batches()
    assert len(world.versions(1)) == 1
    world.delete("orders", pending["id"])
    running.batches()
    assert world.documents() == {1: None}


def test_a_row_that_moves_to_another_order_renews_both(world: OrderHarness, running: Process) -> None:
    row = world.order(1)
    running.batches()
    world.update("orders", row["id"], order_id=2)
    running.batches()
    assert world.documents() == {1: None, 2: world.expected()[2]}


def test_a_change_of_a_signal_table_renews_every_document_that_shows_it(world: OrderHarness, running: Process) -> None:
    world.order(1, partner_id=1)
    world.order(2, partner_id=2)
    running.batches()
    world.update("partners", 1, name="Ada & Co")
    world.update("regions", 2, name="deep south")
    running.batches()
    assert world.documents() == world.expected()
    assert (len(world.versions(1)), len(world.versions(2))) == (2, 2)


def test_a_change_that_no_document_shows_is_filtered(world: OrderHarness, running: Process) -> None:
    world.order(1)
    running.batches()
    world.update("partners", 1, secret="z")
    running.batches()
    assert len(world.versions(1)) == 1
    assert running.signals[-1].counts["filtered"] == 1


def test_a_missing_required_row_sets_the_document_aside_with_the_keys(world: OrderHarness, running: Process) -> None:
    world.order(1, partner_id=99)
    world.order(2)
    running.batches()
    assert set(world.documents()) == {2}
    (letter,) = [DeadLetter.parse(r) for r in world.records(topics.dead(TOPIC, APPLICATION))]
    assert "partners where id=99" in letter.reason
    assert b'"order_id":1' in (letter.value or b"")


def test_a_document_that_was_set_aside_comes_when_the_missing_row_does(world: OrderHarness, running: Process) -> None:
    world.order(1, partner_id=3)
    running.batches()
    world.insert("partners", name="Cyd", secret="", region_id=1)
    running.batches()
    assert world.documents() == world.expected()


def test_a_record_that_is_no_change_is_set_aside_whole_and_the_rest_goes_on(
    world: OrderHarness, running: Process
) -> None:
    world.capture.spoil("orders", b"\x00rubbish", [("trace", b"7")])
    for order_id in range(1, 20):
        world.order(order_id)
    running.batches()
    assert live(world.documents()) == world.expected()
    (letter,) = [DeadLetter.parse(r) for r in world.records(topics.dead(world.inputs.fact, APPLICATION))]
    assert (letter.record.topic, letter.record.value) == (world.inputs.fact, b"\x00rubbish")
    assert letter.record.headers == (("trace", b"7"),)


def test_too_many_unreadable_records_stop_the_stage_and_commit_nothing(world: OrderHarness, running: Process) -> None:
    before = dict(running.publisher.committed)
    for _ in range(10):
        world.capture.spoil("orders", b"rubbish")
    with pytest.raises(Terminal, match="too many records"):
        running.batches()
    assert Process(world).publisher.committed == {}
    again = Process(world)
    again.publisher.open()
    assert again.publisher.committed == before


def test_every_input_record_is_accounted_for(world: OrderHarness, running: Process) -> None:
    world.order(1)
    world.order(1, "pending")
    world.order(1, "cancelled")
    world.update("partners", 1, secret="q")
    world.update("partners", 1, name="q")
    world.delete("orders", 1)
    world.capture.spoil("regions", b"?")
    running.batches()
    for signals in running.signals:
        counts = signals.counts
        parts = ("applied", "superseded", "filtered", "set_aside")
        assert counts["read"] == sum(counts[part] for part in parts)
    assert sum(signals.counts["read"] for signals in running.signals) >= 8


def test_a_truncated_fact_table_leaves_tombstones_of_the_floors_version(world: OrderHarness, running: Process) -> None:
    for order_id in (1, 2, 3):
        world.order(order_id)
    running.batches()
    world.tables.tables["orders"].clear()
    floor = world.capture.version + 1
    world.capture.commit(control=ControlRecord("truncate", "shop", "orders", floor))
    running.batches()
    assert world.documents() == {1: None, 2: None, 3: None}
    assert world.versions(1)[-1] == floor


def test_a_control_record_of_a_table_that_no_document_shows_is_filtered(world: OrderHarness, running: Process) -> None:
    world.order(1)
    running.batches()
    world.capture.commit(control=ControlRecord("truncate", "shop", "policies", world.capture.version + 1))
    running.batches()
    assert len(world.versions(1)) == 1


def test_a_rebuild_writes_every_key_anew_and_takes_away_what_the_table_lost(
    world: OrderHarness, running: Process
) -> None:
    for order_id in range(1, 6):
        world.order(order_id)
    running.batches()
    world.tables.tables["policies"][0]["name"] = "mild"  # behind capture's back
    del world.tables.tables["orders"][0]
    world.ask(Request("r1", "rebuild", "test", 5))
    for _ in range(8):
        world.capture.heartbeat()
        running.batches()
    assert world.answers()["r1"].state == "done"
    assert world.answers()["r1"].done == 5
    assert world.documents() == {1: None, **world.expected()}
    assert all(len(world.versions(order_id)) == 2 for order_id in range(1, 6))


def test_a_rebuild_goes_on_after_a_restart_where_it_was(world: OrderHarness, running: Process) -> None:
    for order_id in range(1, 8):
        world.order(order_id)
    running.batches()
    world.ask(Request("r1", "rebuild", "test", 5))
    world.capture.heartbeat()
    running.batches()
    assert world.answers()["r1"].state == "running"
    Process(world).settle()
    assert world.answers()["r1"].state == "done"
    assert all(len(world.versions(order_id)) == 2 for order_id in range(1, 8))
    assert world.documents() == world.expected()


def test_a_repair_writes_the_keys_that_it_names_once(world: OrderHarness, running: Process) -> None:
    world.order(1)
    world.order(2)
    running.batches()
    repair = Request("r1", "repair", "test", 5, keys=("2", "7"))
    world.ask(repair)
    world.ask(repair)
    stamp = world.capture.heartbeat()
    running.batches()
    world.ask(repair)
    world.capture.heartbeat()
    running.batches()
    assert world.versions(2)[1:] == [stamp]
    assert world.versions(1) == world.versions(1)[:1]
    assert world.answers()["r1"].state == "done"
    assert world.documents()[7] is None


def test_a_key_is_not_stamped_twice_with_one_resolved_record_not_even_over_a_restart(
    world: OrderHarness, running: Process
) -> None:
    world.order(2)
    running.batches()
    world.ask(Request("r1", "repair", "test", 5, keys=("2",)))
    first = world.capture.heartbeat()
    running.batches()
    world.ask(Request("r2", "repair", "test", 6, keys=("2",)))
    again = Process(world)
    assert again.start()
    assert again.batches() == 1, "cut at the same record, as no newer one is there"
    assert world.answers()["r2"].state == "accepted"
    second = world.capture.heartbeat()
    again.batches()
    assert world.versions(2)[1:] == [first, second]
    assert world.answers()["r2"].state == "done"


@pytest.mark.parametrize(
    ("request_", "note"),
    [
        (Request("r1", "snapshot", "test", 1), "not by snapshot"),
        (Request("r1", "repair", "test", 1), "names keys"),
        (Request("r1", "repair", "test", 1, keys=("x1",)), "not a key"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_the_reason(
    world: OrderHarness, running: Process, request_: Request, note: str
) -> None:
    world.ask(request_)
    world.capture.heartbeat()
    running.batches()
    answer = world.answers()["r1"]
    assert answer.state == "refused"
    assert note in answer.note


def test_a_batch_that_is_run_again_writes_nothing(world: OrderHarness, running: Process) -> None:
    world.order(1)
    running.batches()
    before = world.records()
    plan = next(plan for plan in reversed(running.plans) if plan.start != plan.ends)
    assert running.runner.run(plan, lambda: Signals(keys={(1,): 5})) == {}
    assert world.records() == before


def test_a_process_that_was_overtaken_is_fenced(world: OrderHarness, running: Process) -> None:
    newer = Process(world)
    newer.settle(1)
    world.order(1)
    newer.batches()
    with pytest.raises(Fenced):
        running.batches()
    assert len(world.versions(1)) == 1


def test_a_new_input_begins_at_the_newest_resolved_record_with_a_rebuild(world: OrderHarness) -> None:
    fewer = DEFINITION.model_copy(update={"signals": ["partners"]})
    world.order(1)
    old = OrderHarness(fewer)
    old.log, old.registry, old.tables, old.capture, old.clock = (
        world.log, world.registry, world.tables, world.capture, world.clock,
    )  # fmt: skip
    Process(old).settle()
    world.update("regions", 1, name="high north")
    Process(old).settle(1)
    assert world.living(1)["region"] == "north"
    Process(world).settle()
    assert world.documents() == world.expected()


def test_a_restart_with_the_same_inputs_rebuilds_nothing(world: OrderHarness) -> None:
    world.order(1)
    Process(world).settle()
    Process(world).settle()
    assert len(world.versions(1)) == 1


def test_the_documents_resolved_topic_names_the_sources_position_and_the_next_offsets(
    world: OrderHarness, running: Process
) -> None:
    for order_id in range(1, 10):
        world.order(order_id)
    running.batches()
    records = [r for r in world.records(topics.resolved(TOPIC)) if r.value]
    newest = ResolvedRecord.parse(records[-1].value or b"")
    ends = dict.fromkeys([(TOPIC, 0), (TOPIC, 1)], 0)
    for record in records:
        ends.update(ResolvedRecord.parse(record.value or b"").next_offsets)
    assert newest.position.binlog.pos == world.capture.transactions
    assert ends == {(TOPIC, r.partition): r.next_offset for r in world.records()}
    assert from_headers(records[-1].headers) == newest.version


def test_idle_heartbeats_write_a_resolved_record_once_a_second_at_most(world: OrderHarness, running: Process) -> None:
    before = len(world.records(topics.resolved(TOPIC)))
    for _ in range(10):
        world.clock.advance(0.25)
        world.capture.heartbeat()
        running.batches()
    assert 1 <= len(world.records(topics.resolved(TOPIC))) - before <= 3


def test_a_source_topic_that_was_made_anew_ends_the_application(world: OrderHarness, running: Process) -> None:
    world.order(1)
    running.batches()
    fact = world.inputs.fact
    info = world.log.admin().describe(fact)
    assert info is not None
    assert running.runner.topic_ids[fact] == info.topic_id
    world.log.admin().delete(fact)

    world.log.admin().ensure(TopicSpec(fact, info.partitions))
    again = Process(world)
    assert again.start()
    with pytest.raises(Terminal, match="made anew"):
        again.batches()


class Flaky:
    """The database, away for a number of snapshots."""

    def __init__(self, world: OrderHarness, failures: int, error: type[Transient] = Transient) -> None:
        self.world, self.failures, self.error = world, failures, error
        self.columns = world.tables.columns

    def forget(self):
        pass

    def snapshot(self, after=None):
        if self.failures:
            self.failures -= 1
            self.world.clock.advance(10)
            raise self.error("away", system="mysql")
        return self.world.tables.snapshot()


def test_a_database_that_is_away_for_a_moment_is_waited_for(world: OrderHarness) -> None:
    Process(world).settle()
    process = Process(world, tables=Flaky(world, 2))
    assert process.start()
    world.order(1)
    process.batches()
    assert world.documents() == world.expected()


def test_a_database_that_stays_away_fails_the_batch_and_nothing_is_lost(world: OrderHarness) -> None:
    Process(world).settle()
    process = Process(world, tables=Flaky(world, 10**6))
    assert process.start()
    world.order(1)
    began_s = world.clock.monotonic_s()
    with pytest.raises(Transient):
        process.batches()
    assert 15 < world.clock.monotonic_s() - began_s <= 31
    Process(world).settle()
    assert world.documents() == world.expected()


def test_a_replica_that_lags_for_an_hour_is_waited_for_and_said_so(world: OrderHarness) -> None:
    Process(world).settle()
    flaky = Flaky(world, 360, ReplicaBehind)
    process = Process(world, tables=flaky)
    told: list[str] = []
    process.runner._tell = told.append
    assert process.start()
    world.order(1)
    process.batches()
    assert world.documents() == world.expected()
    assert told == ["away (system='mysql')"] * 360 + [""]


def test_an_application_that_is_to_end_waits_for_no_replica(world: OrderHarness) -> None:
    Process(world).settle()
    process = Process(world, tables=Flaky(world, 10**6, ReplicaBehind))
    assert process.start()
    process.runner._stopping = lambda: True
    world.order(1)
    with pytest.raises(ReplicaBehind):
        process.batches()


def test_a_declared_column_that_is_gone_stops_the_start_and_is_named(world: OrderHarness) -> None:
    lookups = {
        **DEFINITION.lookups,
        "partner": DEFINITION.lookups["partner"].model_copy(update={"fields": {"n": "nm"}}),
    }
    other = OrderHarness(DEFINITION.model_copy(update={"lookups": lookups}))
    with pytest.raises(Terminal) as refused:
        Process(other).start()
    assert (refused.value.details["table"], refused.value.details["column"]) == ("partners", "nm")
