"""The planner on the in-memory log: topics that come late, grow or are made anew, cuts, an outage."""

from __future__ import annotations

from collections.abc import Collection, Generator

import pytest

from include.clock import ManualClock
from include.errors import Terminal, Transient
from include.log.memory import MemoryLog
from include.log.planning.plan import Cut, Partition, StreamOffset, StreamSpec
from include.log.planning.planner import BatchPlanner, bounded
from include.log.planning.survey import Edge, PortSurvey
from include.log.planning.tail import PortTail, ResolvedTail
from include.log.ports import TopicInfo, TopicSpec
from include.log.resolved import ResolvedRecord
from include.record.position import SourcePosition

RESOLVED = "cdc.shop.resolved"
ORDERS = "cdc.shop.shop.orders"
REQUESTS = "assembled_order.requests"


def position(number: int) -> SourcePosition:
    return SourcePosition.from_json(
        {"flavour": "mariadb", "gtids": f"0-1-{number}", "file": "bin.000001", "pos": number, "commit_us": number}
    )


class Source:
    """A log with a capture that writes rows and resolved records, and a planner that reads it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        self.writer = self.log.writer("capture")
        self.sequence = 0

    def topic(self, name: str, partitions: int = 1) -> None:
        self.log.admin().ensure(TopicSpec(name, partitions))

    def write(self, topic: str, count: int = 1, partition: int = 0) -> dict[Partition, int]:
        self.writer.begin()
        for _ in range(count):
            self.writer.append(topic, b"k", b"v", partition=partition)
        ends = self.writer.next_offsets()
        self.writer.commit()
        return ends

    def resolve(self, ends: dict[Partition, int], *, full: bool = False) -> None:
        self.sequence += 1
        record = ResolvedRecord("shop", self.sequence, self.sequence, position(self.sequence), ends, full, ("shop.x",))
        self.writer.begin()
        self.writer.append(RESOLVED, record.key, record.value(), partition=0)
        self.writer.commit()

    def planner(self, spec: StreamSpec) -> BatchPlanner:
        survey = PortSurvey(self.log.reader(), self.log.admin())
        tails = [ResolvedTail(PortTail(self.log.reader(), name), name) for name in spec.cut_at]
        return BatchPlanner(spec, survey, tails, self.clock)

    def later(self) -> None:
        """Long enough for the planner to look at its topics again."""
        self.clock.advance(10)


def only(offset: StreamOffset) -> Cut:
    cut = offset.plan().cut
    assert cut is not None
    return cut


@pytest.fixture
def source() -> Source:
    return Source()


def test_a_stream_goes_to_the_last_stable_offset(source: Source) -> None:
    source.topic("t", 2)
    source.write("t", 3)
    planner = source.planner(StreamSpec("-", ("t",)))
    first = planner.latest(StreamOffset())
    assert first.ends == {("t", 0): 4, ("t", 1): 0}
    assert planner.latest(first) is first


def test_a_topic_that_does_not_exist_is_waited_for(source: Source) -> None:
    planner = source.planner(StreamSpec("-", ("t",)))
    start = StreamOffset()
    assert planner.latest(start, 0.4) is start
    source.topic("t")
    source.write("t")
    source.later()
    assert planner.latest(start).ends == {("t", 0): 2}


def test_a_topic_that_was_made_anew_ends_the_stream(source: Source) -> None:
    source.topic("t")
    source.write("t", 2)
    planner = source.planner(StreamSpec("-", ("t",)))
    first = planner.latest(StreamOffset())
    source.log.admin().delete("t")
    source.topic("t")
    source.write("t", 9)
    with pytest.raises(Terminal, match="made anew") as caught:
        planner.latest(first)
    assert caught.value.details["topic"] == "t"
    assert caught.value.details["had_id"] == first.ids["t"]
    assert caught.value.details["has_id"] != first.ids["t"]


def test_offsets_of_another_topic_of_that_name_are_refused_at_the_start(source: Source) -> None:
    source.topic("t")
    planner = source.planner(StreamSpec("-", ("t",), {"t": {0: 0}}, topic_ids={"t": "an older one"}))
    with pytest.raises(Terminal) as refused:
        planner.latest(StreamOffset())
    assert refused.value.details["had_id"] == "an older one"


def test_a_start_that_retention_has_removed_is_refused(source: Source) -> None:
    source.topic("t")
    source.write("t", 9)
    source.log.truncate("t", 0, 5)
    spec = StreamSpec("-", ("t",), {"t": {0: 3}})
    with pytest.raises(Terminal, match="removed from the log before"):
        source.planner(spec).latest(spec.initial())


def test_a_log_that_does_not_answer_is_nothing_new(source: Source) -> None:
    class Away(PortSurvey):
        away = True

        def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
            if self.away:
                raise Transient("gone", system="kafka")
            return super().topics(names)

        def offsets(self, partitions: Collection[Partition], edge: Edge) -> dict[Partition, int]:
            if self.away:
                raise Transient("gone", system="kafka")
            return super().offsets(partitions, edge)

    source.topic("t")
    source.write("t")
    survey = Away(source.log.reader(), source.log.admin())
    planner = BatchPlanner(StreamSpec("-", ("t",)), survey, (), source.clock)
    start = StreamOffset()
    assert planner.latest(start, 0.4) is start
    assert planner.latest(start, 0.4) is start
    survey.away = False
    assert planner.latest(start).ends == {("t", 0): 2}


def test_a_batch_ends_at_the_newest_resolved_record_and_nowhere_else(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,)))
    start = StreamOffset()
    source.write(ORDERS, 3)
    assert planner.latest(start) is start
    source.resolve({(ORDERS, 0): 3}, full=True)
    source.resolve({(ORDERS, 0): 7})
    source.write(ORDERS, 9)
    first = planner.latest(start)
    assert first.ends == {(ORDERS, 0): 7}
    cut = only(first)
    assert (cut.sequence, cut.position, cut.uncovered) == (2, position(2), ("shop.x",))
    assert planner.latest(first) is first


def test_a_heartbeat_moves_the_cut_alone(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,)))
    source.write(ORDERS)
    source.resolve({(ORDERS, 0): 1}, full=True)
    first = planner.latest(StreamOffset())
    source.resolve({})
    second = planner.latest(first)
    assert (second.starts, second.ends) == (first.ends, first.ends)
    assert only(second).sequence == 2


def test_a_missed_resolved_record_cuts_nowhere_before_the_next_full_map(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,)))
    source.resolve({(ORDERS, 0): 1}, full=True)
    first = planner.latest(StreamOffset())
    source.sequence += 1
    source.resolve({(ORDERS, 0): 5})
    assert planner.latest(first) is first
    source.resolve({(ORDERS, 0): 6}, full=True)
    assert planner.latest(first).ends == {(ORDERS, 0): 6}


def test_a_restart_reads_back_as_far_as_the_last_full_map(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    source.resolve({(ORDERS, 0): 0}, full=True)
    for end in range(1, 1200):
        source.resolve({(ORDERS, 0): end})
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,)))
    assert planner.latest(StreamOffset()).ends == {(ORDERS, 0): 1199}


def test_topics_that_the_resolved_record_does_not_speak_for_go_to_their_own_end(source: Source) -> None:
    for topic in (RESOLVED, ORDERS, REQUESTS):
        source.topic(topic)
    planner = source.planner(StreamSpec("-", (ORDERS, REQUESTS), cut_at=(RESOLVED,)))
    source.resolve({(ORDERS, 0): 0}, full=True)
    first = planner.latest(StreamOffset())
    assert first.ends == {(ORDERS, 0): 0, (REQUESTS, 0): 0}
    source.write(REQUESTS)
    assert planner.latest(first) is first
    source.resolve({})
    assert planner.latest(first).ends == {(ORDERS, 0): 0, (REQUESTS, 0): 2}


def test_a_table_that_the_full_map_names_later_is_read_from_its_beginning(source: Source) -> None:
    reviews = "cdc.shop.shop.reviews"
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    planner = source.planner(StreamSpec("-", (ORDERS, reviews), cut_at=(RESOLVED,)))
    source.resolve({(ORDERS, 0): 0}, full=True)
    first = planner.latest(StreamOffset())
    assert first.ends == {(ORDERS, 0): 0}
    source.topic(reviews)
    source.resolve(source.write(reviews, 2))
    second = planner.latest(first)
    assert (second.starts[reviews, 0], second.ends[reviews, 0]) == (0, 2)
    assert reviews in second.ids


def test_a_new_partition_is_read_from_its_beginning(source: Source) -> None:
    source.topic("t", 2)
    source.write("t", 2, partition=0)
    planner = source.planner(StreamSpec("-", ("t",)))
    before = StreamOffset({}, {("t", 0): 3}, {})
    source.write("t", 2, partition=1)
    found = planner.latest(before)
    assert found.starts == {("t", 0): 3, ("t", 1): 0}
    assert found.ends == {("t", 0): 3, ("t", 1): 3}


def test_a_frozen_plan_reaches_what_was_there_in_steps_and_stops(source: Source) -> None:
    source.topic("t")
    source.write("t", 9)
    planner = source.planner(StreamSpec("-", ("t",), limit=4))
    planner.freeze(StreamOffset())
    source.write("t", 9)
    at, ends = StreamOffset(), []
    while (found := planner.latest(at)) is not at:
        ends.append(found.ends["t", 0])
        at = found
    assert ends == [4, 8, 10]


def test_lag_is_measured_against_what_was_seen_last(source: Source) -> None:
    source.topic("t")
    source.write("t", 9)
    planner = source.planner(StreamSpec("-", ("t",), limit=4))
    planner.latest(StreamOffset())
    assert planner.newest() == {("t", 0): 10}


def test_a_bounded_read_ends_where_it_is_told_or_at_the_stable_end(source: Source) -> None:
    source.topic("t", 2)
    source.write("t", 9)
    survey = PortSurvey(source.log.reader(), source.log.admin())
    spec = StreamSpec("-", ("t",), {"t": {0: 2}})
    assert bounded(spec, survey, {}).ends == {("t", 0): 10, ("t", 1): 0}
    assert bounded(spec, survey, {"t": {0: 5}}).starts == {("t", 0): 2, ("t", 1): 0}
    assert bounded(spec, survey, {"t": {0: 5}}).ends[("t", 0)] == 5
    with pytest.raises(Terminal, match="topic does not exist"):
        bounded(StreamSpec("-", ("u",)), survey, {})


def test_a_resolved_record_that_nobody_understands_ends_the_stream(source: Source) -> None:
    source.topic(RESOLVED)
    source.topic(ORDERS)
    source.writer.begin()
    source.writer.append(RESOLVED, b"k", b"not json", partition=0)
    source.writer.commit()
    with pytest.raises(Terminal, match="cannot be understood"):
        source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,))).latest(StreamOffset())


def backlog(source: Source, steps: int, rows: int = 10, *, full_every: int = 50) -> None:
    """So many resolved records, each `rows` further; `at` is where the topic's records end."""
    ends: dict[Partition, int] = {}
    for number in range(steps):
        ends = source.write(ORDERS, rows)
        source.resolve(ends, full=number % full_every == 0)


def walked(planner: BatchPlanner, at: StreamOffset) -> list[StreamOffset]:
    found = []
    while (after := planner.latest(at)) is not at:
        found.append(after)
        at = after
    return found


def sizes(found: list[StreamOffset]) -> list[int]:
    return [sum(each.ends[at] - each.starts[at] for at in each.ends) for each in found]


def test_a_backlog_is_cut_at_resolved_records_on_the_way(source: Source) -> None:
    for topic in (RESOLVED, ORDERS, REQUESTS):
        source.topic(topic)
    backlog(source, 400)
    source.write(REQUESTS, 3)
    planner = source.planner(StreamSpec("-", (ORDERS, REQUESTS), cut_at=(RESOLVED,), cut_limit=100))
    found = walked(planner, StreamOffset())
    assert max(sizes(found[1:])) <= 100
    assert len(found) == 45, "each of nine steps of eleven offsets"
    cuts = [only(each).sequence for each in found]
    assert cuts == sorted(set(cuts))
    assert cuts[-1] == 400
    assert found[0].ends[REQUESTS, 0] == 4, "others' topics go to their own end"
    assert planner.newest()[ORDERS, 0] == found[-1].ends[ORDERS, 0], "lag is measured against the end"


def test_a_restart_in_the_middle_of_a_backlog_goes_on_from_committed_offsets_alone(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    backlog(source, 300)
    spec = StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,), cut_limit=100)
    first = source.planner(spec).latest(StreamOffset())
    again = StreamSpec("-", (ORDERS,), {ORDERS: {0: first.ends[ORDERS, 0]}}, cut_at=(RESOLVED,), cut_limit=100)
    second = source.planner(again).latest(again.initial())
    assert (second.starts[ORDERS, 0], sizes([second])) == (first.ends[ORDERS, 0], [99])
    assert only(second).resolved_offset > only(first).resolved_offset


def test_a_walk_begins_at_a_full_map_before_the_start_however_long_the_topic_is(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    backlog(source, 900, 1)
    start = StreamOffset({}, {(ORDERS, 0): 1780})
    reads: list[int] = []
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,), cut_limit=6))
    inner = planner._steps[RESOLVED]._tail.between
    planner._steps[RESOLVED]._tail.between = lambda first, end: reads.append(first) or inner(first, end)  # type: ignore[method-assign,func-returns-value,assignment]
    found = walked(planner, start)
    assert sizes(found) == [5, 6, 6, 2]
    assert min(reads[1:]) > 1_000


def test_a_step_that_is_greater_than_the_limit_is_taken_whole_and_alone(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    source.resolve(source.write(ORDERS, 3), full=True)
    source.resolve(source.write(ORDERS, 500))
    source.resolve(source.write(ORDERS, 3))
    found = walked(source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,), cut_limit=100)), StreamOffset())
    assert sizes(found[1:]) == [501, 4]


def test_a_hole_in_the_backlog_is_stepped_over_at_the_next_full_map(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    backlog(source, 30)
    source.sequence += 1
    backlog(source, 30, full_every=20)
    found = walked(source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,), cut_limit=50)), StreamOffset())
    assert sum(sizes(found)) == 659
    assert max(sizes(found)) <= 50


def test_a_log_that_is_away_in_the_middle_of_a_walk_is_walked_again(source: Source) -> None:
    for topic in (RESOLVED, ORDERS):
        source.topic(topic)
    backlog(source, 100)
    planner = source.planner(StreamSpec("-", (ORDERS,), cut_at=(RESOLVED,), cut_limit=100))
    inner, away = planner._steps[RESOLVED]._tail.between, [True]

    def between(start: int, end: int) -> Generator[tuple[int, bytes | None]]:
        for number, record in enumerate(inner(start, end)):
            if number == 20 and away:
                away.clear()
                raise Transient("gone", system="kafka")
            yield record

    planner._steps[RESOLVED]._tail.between = between  # type: ignore[method-assign]
    start = StreamOffset()
    first = planner.latest(start)
    if first is start:
        first = planner.latest(start)
    found = [first, *walked(planner, first)]
    assert not away
    assert sum(sizes(found)) == 1099, "the last marker lies beyond"
    assert max(sizes(found)) <= 100


def test_a_partition_that_comes_later_is_not_read_beyond_the_cut(source: Source) -> None:
    reviews = "cdc.shop.shop.reviews"
    for topic in (RESOLVED, ORDERS, reviews):
        source.topic(topic)
    backlog(source, 20)
    source.resolve(source.write(reviews, 5))
    first = source.planner(StreamSpec("-", (ORDERS, reviews), cut_at=(RESOLVED,), cut_limit=50)).latest(StreamOffset())
    assert (reviews, 0) not in first.ends
