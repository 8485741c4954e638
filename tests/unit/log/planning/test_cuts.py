"""Streams of several sources, each with resolved records of its own: random logs, limits and restarts.

What is tried is the planner on the in-memory log. `Sources` knows what each resolved record speaks for, so that a
batch's cuts can be held against it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.clock import ManualClock
from include.log.memory import MemoryLog
from include.log.planning.plan import Cut, Partition, StreamOffset, StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import TopicSpec
from include.log.resolved import ResolvedWriter
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition

SHOP, DEPOT = "cdc.shop.shop.orders", "cdc.depot.depot.packages"
JOINED: Final = "joined"
"""A derived topic that carries both sources."""
REQUESTS: Final = "joined_again.requests"
GOVERNS: Final = {"cdc.shop.resolved": SHOP, "cdc.depot.resolved": DEPOT, "joined.resolved": JOINED}
CARRIES: Final = {
    "cdc.shop.resolved": ("shop",),
    "cdc.depot.resolved": ("depot",),
    "joined.resolved": ("shop", "depot"),
}
PARTITIONS: Final = 2


def position(number: int) -> SourcePosition:
    return SourcePosition("mariadb", MariadbGtidSet({0: (1, number)}), BinlogPosition("bin.000001", number), number)


class Sources:
    """Writers of three topics and of what they are complete to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        for topic in (*GOVERNS.values(), REQUESTS):
            self.log.admin().ensure(TopicSpec(topic, PARTITIONS))
        for topic in GOVERNS:
            self.log.admin().ensure(TopicSpec(topic, 1))
        self.writer = self.log.writer("all")
        self.ends: dict[Partition, int] = {}
        self.resolvers: dict[tuple[str, str], ResolvedWriter] = {}
        self.unsaid: defaultdict[tuple[str, str], dict[Partition, int]] = defaultdict(dict)
        self.said: dict[tuple[str, int], dict[Partition, int]] = {}
        """(resolved topic, offset) → what that record speaks for."""
        self.last: dict[tuple[str, str], int] = {}
        self.now = 0
        for topic in GOVERNS:
            self.begin_anew(topic)

    def write(self, topic: str, partition: int, count: int) -> None:
        self.writer.begin()
        for _ in range(count):
            self.writer.append(topic, b"k", b"v", partition=partition)
        ends = self.writer.next_offsets()
        self.writer.commit()
        self.ends |= ends
        for resolved, sources in CARRIES.items():
            if GOVERNS[resolved] == topic:
                for source in sources:
                    self.unsaid[resolved, source] |= ends

    def resolve(self, topic: str, source: str, *, lost: bool = False) -> None:
        """`lost`: the record is gone by the time that anybody reads."""
        self.now += 1
        made, records = self.resolvers[topic, source].records(
            self.unsaid.pop((topic, source), {}),
            version=self.now,
            position=position(self.now),
            now_us=self.now,
            sources=CARRIES[topic] if len(CARRIES[topic]) > 1 else (),
        )
        if lost:
            return
        self.writer.begin()
        for key, value in records:
            self.writer.append(topic, key, value, partition=0)
        offset = self.writer.next_offsets()[topic, 0] - len(records)
        self.writer.commit()
        self.said[topic, offset] = {at: end for at, end in self.ends.items() if at[0] == GOVERNS[topic]}
        self.last[topic, source] = made.sequence

    def begin_anew(self, topic: str) -> None:
        """A new process writes the topic: full maps come next."""
        for source in CARRIES[topic]:
            self.unsaid.pop((topic, source), None)
            ends = {at: end for at, end in self.ends.items() if at[0] == GOVERNS[topic]}
            writer = ResolvedWriter(source, None, ends)
            writer._sequence = self.now
            self.resolvers[topic, source] = writer

    def planner(self, spec: StreamSpec) -> BatchPlanner:
        reader = self.log.reader()
        tails = [ResolvedTail(PortTail(reader, name), name) for name in spec.cut_at]
        return BatchPlanner(spec, PortSurvey(reader, self.log.admin()), tails, self.clock)


@dataclass
class Reader:
    """A stream that reads the sources, with what must hold after every batch."""

    sources: Sources
    spec: StreamSpec
    at: StreamOffset = field(default_factory=StreamOffset)
    read: dict[Partition, int] = field(default_factory=dict)
    cuts: dict[tuple[str, str], Cut] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.planner = self.sources.planner(self.spec)

    def restart(self, *, warm: bool) -> None:
        """Go on from the offset as it is kept, or from the committed ends alone."""
        start = defaultdict[str, dict[int, int]](dict)
        for (topic, partition), end in self.at.ends.items():
            start[topic][partition] = end
        self.planner = self.sources.planner(replace(self.spec, start=start))
        self.at = StreamOffset.from_text(self.at.to_text()) if warm else replace(self.spec, start=start).initial()

    def batch(self) -> bool:
        self.sources.clock.advance(5)
        before, after = self.at, self.planner.latest(self.at)
        if after is before:
            return False
        self.at = after
        for at, end in after.ends.items():
            assert after.starts[at] == self.read.get(at, 0), "each record is in exactly one batch"
            assert end >= after.starts[at], "no batch goes back"
            self.read[at] = end
        spoken = [at for at in after.ends if at[0] in GOVERNS.values()]
        self.sizes.append(sum(after.ends[at] - after.starts[at] for at in spoken))
        plan = after.plan()
        for (topic, source), cut in plan.cuts.items():
            assert cut.source == source
            for at, end in self.sources.said[topic, cut.resolved_offset].items():
                assert plan.ends[at] >= end, "a cut lacks what its record speaks for"
            last = self.cuts.get((topic, source), cut)
            assert cut.sequence >= last.sequence, "no cut goes back"
        self.cuts |= plan.cuts
        if before.goal is not None:
            arrived = all(after.ends[at] >= end for at, end in before.goal.ends.items())
            assert after.goal == (None if arrived else before.goal), "nothing else is gone for on the way"
            assert plan.cuts == ({**before.cuts, **before.goal.cuts} if arrived else {}), "nothing is cut on the way"
        assert bool(plan.cuts) == (after.goal is None)
        return True

    def drain(self) -> None:
        for _ in range(5_000):
            if not self.batch():
                return
        raise AssertionError("it never ends")


Step = tuple[str, str, int, int]
limit = st.none() | st.integers(1, 30)


@st.composite
def stories(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Step]]:
    """Resolved topics to cut at, and what happens: (what, topic, partition or source, count)."""
    cut_at = tuple(draw(st.lists(st.sampled_from(list(GOVERNS)), min_size=1, unique=True)))
    topics = st.sampled_from(cut_at)
    governed = st.sampled_from([*(GOVERNS[each] for each in cut_at), REQUESTS])
    writes = st.tuples(st.just("write"), governed, st.integers(0, 1), st.integers(1, 40))
    # One in ten is lost: compaction may have been there before a reader that is slow.
    resolves = st.tuples(st.sampled_from(["resolve"] * 9 + ["lose"]), topics, st.integers(0, 1), st.just(0))
    others = st.tuples(
        st.sampled_from(["batch", "batch", "drain", "warm", "cold", "anew"]), topics, st.just(0), st.just(0)
    )
    return cut_at, draw(st.lists(writes | resolves | others, max_size=60))


@given(story=stories(), limits=st.tuples(limit, limit, limit))
def test_whatever_is_written_and_restarted_batches_are_complete_to_their_cuts(
    story: tuple[tuple[str, ...], list[Step]], limits: tuple[int | None, int | None, int | None]
) -> None:
    cut_at, steps = story
    most, total, near = limits
    sources = Sources()
    read = (*(GOVERNS[each] for each in cut_at), REQUESTS)
    spec = StreamSpec("-", read, cut_at=cut_at, limit=most, total_limit=total, cut_limit=near)
    reader = Reader(sources, spec)
    for what, topic, which, count in steps:
        if what == "write":
            sources.write(topic, which, count)
        elif what in ("resolve", "lose"):
            sources.resolve(topic, CARRIES[topic][which % len(CARRIES[topic])], lost=what == "lose")
        elif what == "anew":
            sources.begin_anew(topic)
        elif what == "batch":
            reader.batch()
        elif what == "drain":
            reader.drain()
        else:
            reader.restart(warm=what == "warm")
    for topic in cut_at:
        sources.begin_anew(topic)
        for source in CARRIES[topic]:
            sources.resolve(topic, source)
    reader.drain()
    reached = {key: cut.sequence for key, cut in reader.at.plan().cuts.items()}
    assert reached == {(t, s): sources.last[t, s] for t in cut_at for s in CARRIES[t]}, "each is reached in the end"
    for at, end in sources.ends.items():
        if at[0] in read and at[0] != REQUESTS:
            assert reader.read[at] >= end
    if total is not None:
        assert max(reader.sizes, default=0) <= total


@pytest.fixture
def sources() -> Sources:
    return Sources()


def both(sources: Sources, **limits: int) -> Reader:
    cut_at = ("cdc.shop.resolved", "cdc.depot.resolved")
    return Reader(sources, StreamSpec("-", (SHOP, DEPOT), cut_at=cut_at, **limits))  # type: ignore[arg-type]


def test_a_batch_moves_to_a_later_record_of_any_source(sources: Sources) -> None:
    reader = both(sources)
    sources.write(SHOP, 0, 3)
    sources.resolve("cdc.shop.resolved", "shop")
    assert reader.batch()
    assert set(reader.cuts) == {("cdc.shop.resolved", "shop")}, "a source that says nothing yet holds nobody up"
    sources.write(DEPOT, 1, 2)
    sources.resolve("cdc.depot.resolved", "depot")
    assert reader.batch()
    assert {source: cut.position for (_, source), cut in reader.cuts.items()} == {
        "shop": position(1),
        "depot": position(2),
    }
    assert not reader.batch()


def test_a_derived_topic_is_complete_to_each_of_its_sources_by_records_of_its_own(sources: Sources) -> None:
    reader = Reader(sources, StreamSpec("-", (JOINED,), cut_at=("joined.resolved",)))
    sources.write(JOINED, 0, 3)
    sources.resolve("joined.resolved", "shop")
    sources.write(JOINED, 0, 4)
    sources.resolve("joined.resolved", "depot")
    assert reader.batch()
    shop, depot = reader.cuts["joined.resolved", "shop"], reader.cuts["joined.resolved", "depot"]
    assert (shop.position, depot.position) == (position(1), position(2))
    assert reader.at.ends[JOINED, 0] == sources.ends[JOINED, 0]
    sources.write(JOINED, 0, 5)
    sources.resolve("joined.resolved", "shop")
    assert reader.batch()
    assert reader.at.ends[JOINED, 0] == sources.ends[JOINED, 0], (
        "of each partition to the furthest that a source speaks for"
    )


def test_a_frozen_plan_ends_at_the_cuts_that_were_there(sources: Sources) -> None:
    reader = both(sources, total_limit=10)
    for topic, source in (("cdc.shop.resolved", "shop"), ("cdc.depot.resolved", "depot")):
        sources.write(GOVERNS[topic], 0, 25)
        sources.resolve(topic, source)
    reader.planner.freeze(StreamOffset())
    there = dict(sources.last)
    sources.write(SHOP, 0, 25)
    sources.resolve("cdc.shop.resolved", "shop")
    reader.drain()
    assert {key: cut.sequence for key, cut in reader.cuts.items()} == there


def test_what_comes_while_a_far_step_is_gone_in_parts_waits_for_its_end(sources: Sources) -> None:
    reader = both(sources, total_limit=10)
    sources.write(SHOP, 0, 25)
    sources.resolve("cdc.shop.resolved", "shop")
    assert reader.batch()
    sources.write(DEPOT, 0, 1)
    sources.resolve("cdc.depot.resolved", "depot")
    assert [reader.batch(), dict(reader.cuts)] == [True, {}]
    assert reader.batch()
    assert set(reader.cuts) == {("cdc.shop.resolved", "shop")}
    reader.drain()
    assert {cut.sequence for cut in reader.cuts.values()} == {1, *sources.last.values()}


def test_records_on_the_way_bound_a_backlog_of_several_sources_together(sources: Sources) -> None:
    for _ in range(20):
        for topic, source in (("cdc.shop.resolved", "shop"), ("cdc.depot.resolved", "depot")):
            sources.write(GOVERNS[topic], 0, 9)
            sources.resolve(topic, source)
    reader = both(sources, cut_limit=40)
    reader.drain()
    assert max(reader.sizes) <= 40
    assert len(reader.sizes) == 10
