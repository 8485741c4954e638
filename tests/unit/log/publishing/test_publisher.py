"""Durable steps of the `Publisher`, of an application with two sources, parts of far steps and a topic of pointers.

It copies each record of its inputs once, and keeps in a pointer how far it is: as a join does with its buckets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from include.clock import ManualClock
from include.errors import Fenced, InvalidRecord
from include.log import topics
from include.log.memory import MemoryLog
from include.log.planning.plan import BatchPlan, Partition, StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import LogWriter, Record, TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.log.publishing.last_mark import newest_of
from include.log.publishing.publisher import Publisher
from include.log.requests.records import Answer
from include.log.resolved import ResolvedView, ResolvedWriter
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from tests.support.faults.crash_points import CrashOfKafka, CrashPoint, Killed, crashing

OUT: Final = "joined"
STATE: Final = "joined.pointers"
RESOLVED: Final = topics.resolved(OUT)
INPUTS: Final = {"shop": topics.change("shop", "shop", "orders"), "depot": topics.change("depot", "depot", "parcels")}
ID: Final = f"joins.{OUT}.0"
Wrap = Callable[[LogWriter], LogWriter]


def position(number: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", number), number)


class Harness:
    """Two sources, and what is there of the copy."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        self.writer = self.log.writer("capture")
        self.resolvers: dict[str, ResolvedWriter] = {}
        self.written: list[tuple[str, int]] = []
        self.last: dict[str, SourcePosition] = {}
        for source, topic in INPUTS.items():
            self.log.admin().ensure(TopicSpec(topic, 1))
            self.log.admin().ensure(TopicSpec(topics.source_resolved(source), 1))
            self.resolvers[source] = ResolvedWriter(source, None, {})

    def change(self, source: str, count: int, value: bytes = b"row") -> None:
        """So many records and the position behind them, in one transaction."""
        topic, resolved = INPUTS[source], topics.source_resolved(source)
        self.writer.begin()
        for _ in range(count):
            self.writer.append(topic, b"k", value, partition=0)
        ends = self.writer.next_offsets()
        end = ends.get((topic, 0), 0)
        self.written += [(topic, end - n) for n in range(count, 0, -1)]
        at = position(len(self.written))
        for key, told in self.resolvers[source].records(ends, version=self.version(), position=at, now_us=0)[1]:
            self.writer.append(resolved, key, told, partition=0)
        self.writer.commit()
        self.last[source] = at

    def version(self) -> int:
        return 1 + sum(self.log.reader().end_offsets(topics.source_resolved(each))[0] for each in INPUTS)

    def records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [r for p, end in reader.end_offsets(topic).items() for r in reader.read(topic, p, 0, end)]

    def copied(self) -> list[tuple[str, int]]:
        found = [json.loads(record.key or b"") for record in self.records(OUT)]
        return sorted((topic, offset) for topic, offset in found)

    def resolved(self) -> ResolvedView:
        view = ResolvedView()
        for record in self.records(RESOLVED):
            view.on_record(record.value)
        return view


class Process:
    """One run of the application."""

    def __init__(self, world: Harness, wrap: Wrap = lambda writer: writer, *, total_limit: int | None = None) -> None:
        self.world = world
        self.publisher = Publisher(
            OUT,
            "joins",
            tuple(INPUTS),
            INPUTS.values(),
            own=(TopicSpec(STATE, 1, {"cleanup.policy": "compact"}),),
            open_writer=lambda name: wrap(world.log.writer(name)),
            finish=lambda name, places, commit: world.log.finish(name, places, commit=commit),
            reader=world.log.reader(),
            admin=world.log.admin(),
            clock=world.clock,
        )
        self.publisher.ensure(2)
        self.publisher.open()
        start = defaultdict[str, dict[int, int]](dict)
        for (topic, partition), end in self.publisher.committed.items():
            start[topic][partition] = end
        cut_at = tuple(topics.source_resolved(source) for source in INPUTS)
        spec = StreamSpec("-", tuple(INPUTS.values()), start, cut_at, total_limit=total_limit)
        reader = world.log.reader()
        tails = [ResolvedTail(PortTail(reader, name), name) for name in cut_at]
        self.planner = BatchPlanner(spec, PortSurvey(reader, world.log.admin()), tails, world.clock)
        self.at = spec.initial()
        self.plans: list[BatchPlan] = []

    def run(self) -> None:
        while (after := self.planner.latest(self.at)) is not self.at:
            self.at = after
            self.world.clock.advance(5)
            self.batch(after.plan())

    def batch(self, plan: BatchPlan) -> None:
        self.plans.append(plan)
        moved = any(end > plan.start.get(at, 0) for at, end in plan.ends.items())
        if moved and not self.publisher.covers(plan):
            self.publisher.begin()
            self.write(plan)
            self.publisher.commit(plan.ends, part=not plan.cuts)
        if plan.cuts:
            self.publisher.resolve({source: cut for (_, source), cut in plan.cuts.items()}, plan.topic_ids)

    def write(self, plan: BatchPlan) -> None:
        for (topic, partition), end in plan.ends.items():
            for record in self.world.log.reader().read(topic, partition, plan.start[topic, partition], end):
                if record.value == b"rubbish":
                    error = InvalidRecord("rubbish")
                    self.publisher.set_aside(DeadLetter.of(record, "joins", error, self.world.clock.now_us()))
                else:
                    self.publisher.write(json.dumps([topic, record.offset]).encode(), record.value, 1)
        done = {f"{topic}/{p}": end for (topic, p), end in plan.ends.items()}
        self.publisher.append(STATE, b"pointer", json.dumps(done).encode())
        self.publisher.answer(Answer("all", "running", self.world.clock.now_us()), ())


def story(world: Harness) -> None:
    """A far step, of both sources."""
    world.change("shop", 7)
    world.change("depot", 4)


def check(world: Harness) -> None:
    """Each record was copied once, the pointer and the committed offsets are of one mind, and so is what was said."""
    assert world.copied() == sorted(world.written)
    committed = {
        (topic, p): offset for topic in INPUTS.values() for p, offset in world.log.reader().committed(ID, topic).items()
    }
    pointers = [record.value for record in world.records(STATE)]
    assert len(pointers) == len(set(pointers)), "each batch moves it once"
    pointer = json.loads(pointers[-1] or b"")
    assert pointer == {f"{topic}/{p}": offset for (topic, p), offset in committed.items()}
    view = world.resolved()
    assert {source: view.of(source).position for source in INPUTS} == world.last  # type: ignore[union-attr]
    assert view.newest is not None
    assert view.newest.state["committed"] == pointer, "what the copy is complete to is of these input ends"
    ends = view.ends()
    assert ends is not None
    reader = world.log.reader()
    for (topic, partition), end in ends.items():
        assert not list(reader.read(topic, partition, end, reader.end_offsets(topic)[partition]))


def settled(world: Harness, wrap: Wrap = lambda writer: writer) -> None:
    """Work off what is there, more than five offsets in parts."""
    Process(world, wrap, total_limit=5).run()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("started", [False, True], ids=["first start", "restart"])
def test_a_kill_at_any_durable_call_loses_nothing_and_doubles_nothing(started: bool, after: bool) -> None:
    calls: list[str] = []
    for at in range(1, 500):
        world = Harness()
        if started:
            world.change("shop", 5)
            world.change("depot", 1)
            settled(world)
        story(world)
        fuse = CrashPoint(at, after=after)
        try:
            settled(world, crashing(fuse))
        except Killed:
            calls.append(fuse.burnt or "")
            settled(world)
        check(world)
        if fuse.burnt is None:
            break
    assert {"begin", "append", "next_offsets", "commit"} <= set(calls)
    assert len(calls) < 499, "a run got through"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("started", [False, True], ids=["first start", "restart"])
@pytest.mark.parametrize(
    "places",
    [
        [(OUT, 0)],
        [(STATE, 0)],
        [(RESOLVED, 0)],
        [(OUT, 0), (STATE, 0), (topics.answers(OUT), 0)],
        [(OUT, 1), (RESOLVED, 0)],
    ],
    ids=["output", "pointers", "resolved", "all but one", "output and resolved"],
)
def test_what_kafka_forgot_to_end_at_a_kill_is_ended_as_it_was_meant(
    places: list[Partition], started: bool, after: bool
) -> None:
    forgotten = 0
    for at in range(1, 500):
        world = Harness()
        if started:
            world.change("shop", 5)
            world.change("depot", 1)
            settled(world)
        story(world)
        fuse = CrashOfKafka(at, world.log, places, after=after)
        try:
            settled(world, crashing(fuse))
        except Killed:
            world.log.writer(ID).close()
            forgotten += bool(world.log.reader().unended([place[0] for place in places]))
            world.log.forget()
            settled(world)
        check(world)
        if fuse.burnt is None:
            break
    assert forgotten > 1, "some of these kills left a transaction open"


class Once:
    """A writer whose process dies when a batch is committed, before anything is said of it."""

    def __init__(self, inner: LogWriter) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, group: str | None = None, offsets: Mapping[Partition, int] | None = None) -> None:
        self._inner.commit(group, offsets)
        if group is not None:
            raise Killed


@pytest.mark.parametrize("started", [False, True], ids=["first start", "restart"])
@pytest.mark.parametrize(
    "place", [(OUT, 0), (OUT, 1), (STATE, 0), (RESOLVED, 0)], ids=["output", "other", "state", "said"]
)
def test_a_batch_that_nothing_was_said_of_is_not_taken_for_a_part_of_the_next_one(
    place: Partition, started: bool
) -> None:
    for at in range(1, 500):
        world = Harness()
        if started:
            world.change("depot", 1)
            settled(world)
        world.change("shop", 3)
        with pytest.raises(Killed):
            settled(world, Once)
        world.change("depot", 3)
        world.change("shop", 0)
        fuse = CrashOfKafka(at, world.log, [place], after=False)
        try:
            settled(world, crashing(fuse))
        except Killed:
            world.log.writer(ID).close()
            world.log.forget()
            settled(world)
        check(world)
        if fuse.burnt is None:
            break


@pytest.fixture
def world() -> Harness:
    return Harness()


def test_a_far_step_is_resolved_when_its_last_part_is_there_and_not_before(world: Harness) -> None:
    world.change("shop", 23)
    process = Process(world, total_limit=6)
    seen = []
    while (after := process.planner.latest(process.at)) is not process.at:
        process.at = after
        process.batch(after.plan())
        seen.append(world.resolved().newest is not None)
    assert seen == [False, False, False, True]
    world.change("depot", 0)
    process.run()
    check(world)


def test_each_source_has_records_of_its_own_that_speak_for_the_same_offsets(world: Harness) -> None:
    process = Process(world)
    world.change("shop", 2)
    process.run()
    assert world.resolved().sources() == ("shop",), "nothing is said of a source that says nothing itself"
    world.change("depot", 1)
    process.run()
    world.change("shop", 2)
    process.run()
    view = world.resolved()
    assert list(view.sources()) == ["depot", "shop"]
    assert view.ends("shop") == view.ends("depot")
    check(world)


def test_a_restart_goes_on_with_each_sources_sequence(world: Harness) -> None:
    story(world)
    Process(world).run()
    before = {source: world.resolved().of(source).sequence for source in INPUTS}  # type: ignore[union-attr]
    world.change("depot", 4)
    Process(world).run()
    view = world.resolved()
    assert {source: view.of(source).sequence for source in INPUTS} == {  # type: ignore[union-attr]
        source: sequence + 1 for source, sequence in before.items()
    }
    check(world)


def test_an_opening_finds_the_mark_of_the_last_part_and_says_nothing_again(world: Harness) -> None:
    world.change("shop", 23)
    process = Process(world, total_limit=6)
    process.at = process.planner.latest(process.at)
    process.batch(process.at.plan())
    held = len(world.records(RESOLVED))
    again = Process(world, total_limit=6)
    spoken = newest_of(world.log.reader(), RESOLVED)[2]
    assert spoken is not None
    assert spoken.committed == {f"{INPUTS['shop']}/0": 6}
    assert again.publisher.committed == {(INPUTS["shop"], 0): 6}
    assert (held, len(world.records(RESOLVED))) == (1, 1)


def test_what_is_set_aside_goes_with_its_batch(world: Harness) -> None:
    world.change("shop", 1, b"rubbish")
    Process(world).run()
    dead = world.records(topics.dead(INPUTS["shop"], "joins"))
    assert [record.value for record in dead] == [b"rubbish"]
    assert world.copied() == []


def test_a_batch_that_begins_before_what_is_committed_is_fenced(world: Harness) -> None:
    story(world)
    process = Process(world)
    process.run()
    plan = process.plans[0]
    assert process.publisher.covers(plan)
    later = BatchPlan(plan.start, {at: end + 5 for at, end in plan.ends.items()}, plan.topic_ids, plan.cuts)
    with pytest.raises(Fenced, match="another process went on"):
        process.publisher.covers(later)


def test_a_topic_that_is_not_its_own_is_not_written_to(world: Harness) -> None:
    process = Process(world)
    process.publisher.begin()
    with pytest.raises(RuntimeError, match="none of the topics"):
        process.publisher.append("somebody", b"k", b"v")


def test_one_that_stopped_within_its_first_far_step_for_longer_than_deletes_are_kept_is_incomplete(
    world: Harness,
) -> None:
    world.clock.advance(5)
    world.change("shop", 23)
    process = Process(world, total_limit=6)
    process.at = process.planner.latest(process.at)
    process.batch(process.at.plan())
    assert process.publisher.resolved is None
    assert Process(world).publisher.why_incomplete() == ""
    world.clock.advance(100 * 86_400)
    for _ in range(2):
        assert "longer than the log keeps deletes" in Process(world).publisher.why_incomplete()


def test_offsets_that_the_broker_has_deleted_are_those_that_were_said_last() -> None:
    world = Harness()
    story(world)
    settled(world)
    committed = Process(world).publisher.committed
    for _ in range(2):
        world.log.expire(ID)
        assert Process(world).publisher.committed == committed
    story(world)
    settled(world)
    check(world)


def test_who_stood_until_the_broker_had_deleted_its_offsets_is_incomplete() -> None:
    world = Harness()
    story(world)
    settled(world)
    world.log.expire(ID)
    assert Process(world).publisher.why_incomplete() == ""
    world.change("shop", 1)
    world.clock.advance(8 * 86_400)
    assert "longer than the log keeps deletes" in Process(world).publisher.why_incomplete()


def test_where_a_kill_and_the_broker_leave_nothing_that_says_what_was_read_the_copy_is_incomplete() -> None:
    told = 0
    for at in range(1, 500):
        world = Harness()
        story(world)
        settled(world)
        story(world)
        fuse = CrashPoint(at, after=True)
        try:
            settled(world, crashing(fuse))
        except Killed:
            world.log.expire(ID)
            first, second = (Process(world).publisher.why_incomplete() for _ in range(2))
            assert first == second, "until a batch is through"
            told += bool(first)
            settled(world)
            if world.copied() != sorted(world.written):
                assert first == "nothing says what was committed last"
        settled(world)
        assert Process(world).publisher.why_incomplete() == ""
        if fuse.burnt is None:
            break
    assert told, "a kill between the two transactions of a batch"


def test_who_finds_both_its_topics_made_anew_is_incomplete_until_a_batch_is_through() -> None:
    world = Harness()
    story(world)
    settled(world)
    for name in (OUT, RESOLVED):
        world.log.admin().delete(name)
    for _ in range(2):
        assert Process(world).publisher.why_incomplete() == "nothing says what was committed last"
    story(world)
    settled(world)
    assert Process(world).publisher.why_incomplete() == ""
