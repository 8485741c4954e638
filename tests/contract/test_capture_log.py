"""Capture's one port: every adapter gives the same answers. The log behind it is looked at by its own ports."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from include.clock import SystemClock
from include.errors import Fenced, Terminal
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.transaction_end import end_transaction
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import LogReader, LogWriter, SchemaRegistry, TopicAdmin, TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.log.requests.records import Answer, Request
from include.log.resolved import ResolvedView
from include.log.topics import change, document_spec, source_answers, source_requests, source_resolved
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.version import from_headers
from include.source.log.direct_log import DirectLog, transactional_id
from include.source.log.ports import LogPorts
from include.source.ports import CaptureLog, Group, OutgoingRecord, ResumePoint
from include.source.state.capture_state import CaptureState
from tests.support.log.hanging_transaction import HangingTransactionWriter, unverified

SCHEMA = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


@dataclass
class Harness:
    """A log, and captures of one source on it."""

    name: str
    ports: LogPorts
    asker: LogWriter
    # A writer whose next transaction's end these partitions do not hear of.
    forgetful: Callable[[Collection[tuple[str, int]]], LogWriter]
    captures: list[CaptureLog] = field(default_factory=list)

    def capture(self, *forgotten: tuple[str, int]) -> CaptureLog:
        ports = replace(self.ports, writer=lambda: self.forgetful(forgotten)) if forgotten else self.ports
        log: CaptureLog = DirectLog(self.name, ports, SystemClock())
        self.captures.append(log)
        return log

    @property
    def topic(self) -> str:
        return change(self.name, "shop", "orders")

    @property
    def spec(self) -> TopicSpec:
        return document_spec(self.topic, 2)

    def output(self, number: int, value: bytes | None = b"v") -> OutgoingRecord:
        return OutgoingRecord(self.topic, b"k%d" % number, value, number, number % 2)

    def values(self, topic: str, await_records: int = 0) -> list[tuple[int, bytes | None]]:
        """(version, value) of all committed records, in the order of versions.

        Kafka answers a commit a moment before readers see it: `await_records` are waited for, ten seconds at most.
        """
        reader, clock = self.ports.reader, SystemClock()
        end_s = clock.monotonic_s() + 10
        while True:
            begin, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
            found = [r for p, end in ends.items() for r in reader.read(topic, p, begin[p], end)]
            if len(found) >= await_records or clock.monotonic_s() >= end_s:
                return sorted((from_headers(r.headers), r.value) for r in found)
            clock.sleep(0.1)

    def view(self) -> ResolvedView:
        view, reader, topic = ResolvedView(), self.ports.reader, source_resolved(self.name)
        for record in reader.read(topic, 0, reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0]):
            view.on_record(record.value)
        return view

    def ask(self, topic: str, *said: Request | Answer) -> None:
        self.asker.begin()
        for each in said:
            self.asker.append(topic, each.key(), each.value())
        self.asker.commit()


def position(number: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", number), number)


def group(number: int, *outputs: OutgoingRecord, state: CaptureState | None = None) -> Group:
    state = replace(state or CaptureState(), version=number)
    return Group(outputs, position(number), state, number, state.uncovered, len(outputs), 1)


@pytest.fixture(params=["memory", "kafka"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    reader: LogReader
    admin: TopicAdmin
    registry: SchemaRegistry
    id_ = transactional_id(unique)
    if request.param == "memory":
        memory = MemoryLog()
        reader, admin, registry, open_writer = memory.reader(), memory.admin(), MemoryRegistry(), memory.writer

        def forgetful(places: Collection[tuple[str, int]]) -> LogWriter:
            writer = memory.writer(id_)
            memory.forget(*places)
            return writer

        def finish(places: Collection[tuple[str, int]], commit: bool) -> None:
            memory.finish(id_, places, commit=commit)
    else:
        bootstrap = request.getfixturevalue("kafka")
        reader, admin = KafkaReader(bootstrap, timeout_s=10), KafkaAdmin(bootstrap)
        registry = ConfluentRegistry(request.getfixturevalue("registry_url"))

        def open_writer(transactional_id: str) -> LogWriter:
            return KafkaWriter(bootstrap, transactional_id, timeout_s=20)

        def forgetful(places: Collection[tuple[str, int]]) -> LogWriter:
            writer: Any = HangingTransactionWriter(bootstrap, id_, places)
            return writer

        def finish(places: Collection[tuple[str, int]], commit: bool) -> None:
            end_transaction(bootstrap, id_, places, commit=commit)

    ports = LogPorts(lambda: open_writer(id_), reader, admin, registry, finish)
    world = Harness(unique, ports, open_writer(f"{unique}-asker"), forgetful)
    yield world
    for log in world.captures:
        log.close()
    world.asker.close()
    for topic in admin.names():
        if topic.startswith(f"cdc.{unique}."):
            admin.delete(topic)
    reader.close()


def test_a_log_that_nobody_wrote_has_no_resume_point(world: Harness) -> None:
    log = world.capture()
    assert (log.newest(), log.open()) == (None, None)


def test_a_group_is_seen_whole_and_tells_where_it_ended(world: Harness) -> None:
    log, state = world.capture(), CaptureState(tables={"shop.orders": 7}, snapshot="done")
    log.open()
    log.ensure(world.spec)
    log.write([world.output(1), world.output(2)])
    log.write([world.output(3, None)])
    assert (world.values(world.topic), world.view().newest) == ([], None)
    log.commit(group(5, world.output(4, b"last"), state=state))
    expected = ResumePoint(position(5), replace(state, version=5))
    assert world.capture().open() == expected
    assert world.values(world.topic, 4) == [(1, b"v"), (2, b"v"), (3, None), (4, b"last")]
    ends = world.view().ends()
    assert ends is not None
    stored = world.ports.reader.end_offsets(world.topic)
    # A transaction's own marker stands after its records.
    assert ends == {(world.topic, partition): end - 1 for partition, end in stored.items()}


def test_what_was_written_and_not_committed_is_gone_with_the_one_who_wrote_it(world: Harness) -> None:
    log = world.capture()
    log.open()
    log.ensure(world.spec)
    log.commit(group(2, world.output(1)))
    log.write([world.output(3)])
    log.close()
    again = world.capture()
    point = again.open()
    assert point is not None
    assert (point.position, point.state.version) == (position(2), 2)
    again.commit(group(4, world.output(3, b"once")))
    assert world.capture().open() == ResumePoint(position(4), CaptureState(version=4))
    assert world.values(world.topic, 2) == [(1, b"v"), (3, b"once")]


def test_whoever_opens_it_fences_the_one_before(world: Harness) -> None:
    first, second = world.capture(), world.capture()
    first.open()
    first.ensure(world.spec)
    first.commit(group(1))
    first.write([world.output(2, b"of the first")])
    assert second.open() == ResumePoint(position(1), CaptureState(version=1))
    with pytest.raises(Fenced):
        first.commit(group(3))
    second.commit(group(3, world.output(2, b"of the second")))
    third = world.capture()
    assert third.open() == ResumePoint(position(3), CaptureState(version=3))
    assert world.values(world.topic, 1) == [(2, b"of the second")]


def test_one_that_looks_fences_nobody(world: Harness) -> None:
    log, other = world.capture(), world.capture()
    log.open()
    log.commit(group(1))
    log.write([])
    world.capture().newest()
    log.commit(group(2))
    log.commit(group(3))
    log.close()
    other.open()
    assert other.newest() == ResumePoint(position(3), CaptureState(version=3))


def test_the_state_comes_back_whole_though_a_commit_writes_only_what_changed_of_it(world: Harness) -> None:
    log = world.capture()
    log.open()
    tables = {f"shop.t{number}": number for number in range(1000)}
    states = [
        CaptureState(tables=tables, snapshot="running", requests_next=4),
        CaptureState(tables=tables, snapshot="done", requests_next=4),
        CaptureState(tables={**tables, "shop.new": 5}, snapshot="done", requests_next=4),
        CaptureState(tables=tables, snapshot="done", requests_next=5).with_gap("gap:1", ["shop.t1"]),
    ]
    for number, state in enumerate(states, 1):
        log.commit(group(number, state=state))
    point = world.capture().open()
    assert point == ResumePoint(position(4), replace(states[-1], version=4))
    sizes = [len(value or b"") for _, value in world.values(source_resolved(world.name))]
    assert sizes[0] > 10_000
    assert max(sizes[1:]) < 1000


def test_it_may_be_closed_at_any_time_and_opened_again(world: Harness) -> None:
    log = world.capture()
    log.close()
    log.open()
    log.commit(group(1))
    log.close()
    log.close()
    with pytest.raises(Terminal, match="not open"):
        log.commit(group(2))
    assert log.open() == ResumePoint(position(1), CaptureState(version=1))
    log.commit(group(2))
    assert world.capture().open() == ResumePoint(position(2), CaptureState(version=2))


def test_requests_are_read_from_where_the_last_reading_ended(world: Harness) -> None:
    log, topic = world.capture(), source_requests(world.name)
    log.open()
    assert log.requests(0) == ([], 0)
    world.ask(topic, Request("a", "snapshot", "somebody", 0), Request("b", "snapshot", "somebody", 0))
    log.open()
    found, after = log.requests(0)
    assert [Request.parse(record.value or b"").id for record in found] == ["a", "b"]
    assert log.requests(after) == ([], after)
    world.ask(topic, Request("c", "snapshot", "somebody", 0))
    log.open()
    found, last = log.requests(after)
    assert [record.key for record in found] == [b"c"]
    assert last > after


def test_requests_that_were_answered_for_good_are_known(world: Harness) -> None:
    log, topic = world.capture(), source_answers(world.name)
    log.open()
    assert log.closed_requests() == set()
    done, refused = Answer("a", "done", 1), Answer("b", "refused", 1)
    outputs = [
        OutgoingRecord(topic, answer.key(), answer.value(), number)
        for number, answer in enumerate((Answer("a", "accepted", 0), done, refused, Answer("c", "running", 1)), 1)
    ]
    log.commit(group(5, *outputs))
    again = world.capture()
    again.open()
    assert again.closed_requests() == {"a", "b"}


def test_a_topic_and_a_schema_are_made_once(world: Harness) -> None:
    log = world.capture()
    log.open()
    made = log.ensure(world.spec)
    assert (made.partitions, log.ensure(world.spec)) == (2, made)
    with pytest.raises(Terminal, match="partitions"):
        log.ensure(document_spec(world.topic, 3))
    schema_id = log.register(f"{world.topic}-key", SCHEMA)
    assert log.register(f"{world.topic}-key", SCHEMA) == schema_id
    assert world.ports.registry.schema(schema_id) == SCHEMA
    # Of no matter what it was before.
    assert log.register(f"{world.topic}-key", {**SCHEMA, "fields": []}) != schema_id


def test_topics_of_many_tables_are_made_together(world: Harness) -> None:
    log = world.capture()
    log.open()
    log.ensure_all([])
    log.ensure(world.spec)
    specs = [document_spec(change(world.name, "shop", f"t{number}"), 1) for number in range(30)]
    log.ensure_all([world.spec, *specs])
    log.ensure_all(specs)
    assert {spec.name for spec in specs} <= set(world.ports.admin.names())
    with pytest.raises(Terminal, match="partitions"):
        log.ensure_all([document_spec(world.topic, 3)])


def test_a_topic_that_was_made_anew_is_empty_and_resolved_records_say_so(world: Harness) -> None:
    log = world.capture()
    log.open()
    before = log.ensure(world.spec)
    log.commit(group(3, world.output(1), world.output(2)))
    made = log.remake(document_spec(world.topic, 3))
    assert made.topic_id != before.topic_id
    assert made.partitions == 3
    log.commit(group(4))
    assert world.capture().open() == ResumePoint(position(4), CaptureState(version=4))
    assert world.view().ends() == {(world.topic, partition): 0 for partition in range(3)}


@pytest.mark.parametrize("config", [{"max.message.bytes": "20000"}, {}])
def test_a_record_as_large_as_the_topic_is_said_to_take_is_taken(world: Harness, config: dict[str, str]) -> None:
    capture = world.capture()
    capture.open()
    capture.ensure(TopicSpec(world.topic, 2, config))
    # Of random bytes, which do not become less by compression.
    value = random.randbytes(capture.largest(world.topic) - len(world.output(1).key))
    capture.commit(group(2, world.output(1, value)))
    assert world.capture().open() == ResumePoint(position(2), CaptureState(version=2))
    assert world.values(world.topic, 1) == [(1, value)]


def test_a_topic_that_was_made_anew_takes_what_follows(world: Harness) -> None:
    log = world.capture()
    log.open()
    log.ensure(world.spec)
    for number in range(1, 6, 2):
        log.commit(group(number + 1, world.output(number)))
    log.remake(world.spec)
    log.commit(group(8, world.output(7, b"new")))
    log.commit(group(10, world.output(9, b"newer")))
    assert world.capture().open() == ResumePoint(position(10), CaptureState(version=10))
    assert world.values(world.topic, 2) == [(7, b"new"), (9, b"newer")]


def test_no_topic_is_made_anew_while_something_is_written(world: Harness) -> None:
    log = world.capture()
    log.open()
    log.ensure(world.spec)
    log.write([world.output(1)])
    with pytest.raises(Terminal, match="in a transaction"):
        log.remake(world.spec)


@pytest.fixture
def broken(world: Harness, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A world with one whole group, where ends of transactions may be forgotten."""
    with ExitStack() as stack:
        if "kafka" in request.fixturenames:
            stack.enter_context(unverified(request.getfixturevalue("kafka")))
        log = world.capture()
        log.open()
        log.ensure(world.spec)
        log.commit(group(2, world.output(1), world.output(2)))
        log.close()
        yield world


def test_a_commit_that_some_partitions_did_not_hear_of_is_told_to_them_before_capture_goes_on(broken: Harness) -> None:
    dying = broken.capture((broken.topic, 0), (source_resolved(broken.name), 0))
    dying.open()
    dying.commit(group(4, broken.output(3), broken.output(4)))
    dying.close()
    assert broken.values(broken.topic, 3) == [(1, b"v"), (2, b"v"), (3, b"v")]
    log = broken.capture()
    found = log.open()
    assert found is not None
    assert found.state.version == 4
    log.commit(group(5, broken.output(5)))
    assert broken.values(broken.topic, 5) == [(number, b"v") for number in range(1, 6)]


def test_rows_that_a_resolved_record_speaks_for_are_committed_with_it(broken: Harness) -> None:
    dying = broken.capture((broken.topic, 0), (broken.topic, 1))
    dying.open()
    dying.commit(group(4, broken.output(3), broken.output(4)))
    dying.close()
    assert broken.values(broken.topic, 2) == [(1, b"v"), (2, b"v")]
    found = broken.capture().open()
    assert found is not None
    assert found.state.version == 4
    assert broken.values(broken.topic, 4) == [(number, b"v") for number in range(1, 5)]


def test_a_group_that_nobody_saw_a_part_of_is_aborted_and_may_be_written_again(broken: Harness) -> None:
    dying = broken.capture((broken.topic, 0), (broken.topic, 1), (source_resolved(broken.name), 0))
    dying.open()
    dying.commit(group(4, broken.output(3), broken.output(4)))
    dying.close()
    log = broken.capture()
    found = log.open()
    assert found is not None
    assert found.state.version == 2
    log.commit(group(4, broken.output(3), broken.output(4)))
    assert broken.values(broken.topic, 4) == [(number, b"v") for number in range(1, 5)]


def test_an_open_transaction_of_somebody_else_in_a_sources_topic_is_named(broken: Harness) -> None:
    broken.asker.begin()
    broken.asker.append(broken.topic, b"k", b"not ours", partition=1)
    broken.asker.next_offsets()
    with pytest.raises(Terminal, match="a transaction of another producer is open") as caught:
        broken.capture().open()
    assert (caught.value.details["topic"], caught.value.details["partition"]) == (broken.topic, 1)
    broken.asker.abort()
