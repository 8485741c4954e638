"""What Kafka does not take: a record that is too large for its topic, a transaction that takes too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from include.clock import ManualClock
from include.errors import Fenced, Terminal
from include.log.memory import MemoryLog, MemoryRegistry
from include.log.ports import TopicSpec
from include.log.topics import LARGEST_STORED, document_spec
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.source.binlog.transaction import RowsEvent
from include.source.log.direct_log import DirectLog, ensure_topics, memory_log, transactional_id
from include.source.log.ports import LogPorts
from include.source.ports import Group, OutgoingRecord
from include.source.rows.encode import TableEncoders
from include.source.state.capture_state import CaptureState
from tests.support.binlog.recorded_mariadb import MAP, SCHEMA, rows, transaction
from tests.unit.source.test_replicator import TOPIC, Harness, resolved


def with_row_of(size: int, world: Harness) -> RowsEvent:
    world.columns = (*SCHEMA.columns[:2], replace(SCHEMA.columns[2], type="longtext"))
    body = rows("c", (1, 1, "a")).body[:-2]
    wide = replace(MAP, metas=(0, 0, 4), types=bytes((3, 3, 252)))
    return RowsEvent(wide, "c", body + size.to_bytes(4, "little") + b"x" * size)


def test_a_row_that_no_topic_takes_sets_its_table_aside_and_nothing_else() -> None:
    world = Harness()
    found = with_row_of(17 << 20, world)
    world.replicate([transaction(1, found), transaction(2, rows("c", (2, 1, "b"))), transaction(3)])
    last = resolved(world)[-1]
    cause = last.state["aside"]["shop.t"]["cause"]
    assert "larger than its topic takes" in cause
    assert "Ignore its large column in `filter`; then `lyrebird capture resume-table`" in cause
    assert "max.message.bytes" not in cause
    assert world.records(TOPIC) == []
    assert str(last.position.gtids) == "0-1-3"


def test_a_row_of_megabytes_passes_where_the_topic_is_ours() -> None:
    world = Harness()
    world.replicate([transaction(1, with_row_of(2 << 20, world))])
    assert resolved(world)[-1].state.get("aside", {}) == {}
    assert len(world.records(TOPIC)) == 1


@pytest.mark.parametrize(("more", "aside"), [(0, ["shop.t"]), (-60_000, [])])
def test_a_topic_that_takes_less_sets_its_table_aside_and_the_command_that_raises_it_is_told(
    more: int, aside: list[str]
) -> None:
    world = Harness()
    world.log.admin().ensure(TopicSpec(TOPIC, 4, {"cleanup.policy": "compact"}))
    world.replicate([transaction(1, with_row_of((1 << 20) + more, world)), transaction(2)])
    last = resolved(world)[-1]
    found = last.state.get("aside", {})
    assert list(found) == aside
    for why in found.values():
        assert f"--entity-name {TOPIC} --add-config max.message.bytes={LARGEST_STORED}`" in why["cause"]
        assert "lyrebird capture resume-table" in why["cause"]
    assert str(last.position.gtids) == "0-1-2"


def test_a_topic_whose_limit_was_raised_takes_larger_rows_from_then_on() -> None:
    log, clock = MemoryLog(), ManualClock()
    capture = memory_log("s", log, MemoryRegistry(), clock)
    capture.open()
    log.admin().ensure(TopicSpec(TOPIC, 4, {"max.message.bytes": "2000000"}))
    encoders = TableEncoders("s", Harness().source, capture)
    encoder = encoders.of(SCHEMA)
    with pytest.raises(Terminal, match="larger than its topic takes") as refused:
        encoders.require_room(encoder, 3_000_000)
    assert (refused.value.details["bytes"], refused.value.details["most"]) == (3000000, 1995904)
    log.admin().delete(TOPIC)
    log.admin().ensure(document_spec(TOPIC, 4))
    encoders.require_room(encoder, 3_000_000)
    assert encoder.most == (16 << 20) - 4096


def test_where_kafka_may_not_tell_what_a_topic_takes_it_is_taken_for_one_of_ours() -> None:
    log = MemoryLog()
    admin: Any = log.admin()
    admin.largest = lambda _topic: None
    ports = LogPorts(lambda: log.writer("w"), log.reader(), admin, MemoryRegistry(), lambda _places, _commit: None)
    capture = DirectLog("s", ports, ManualClock())
    assert capture.largest(TOPIC) == (16 << 20) - 4096


class Late:
    """A capture whose group is larger than memory should hold, and whose writer the log may give up."""

    def __init__(self) -> None:
        self.memory, self.clock = MemoryLog(), ManualClock()
        ensure_topics("s", self.memory.admin())
        self.memory.admin().ensure(document_spec(TOPIC, 1))
        self.log = memory_log("s", self.memory, MemoryRegistry(), self.clock)
        self.log.open()
        position = SourcePosition("mariadb", MariadbGtidSet(), BinlogPosition("bin.000007", 1204), 0)
        self.group = Group((), position, CaptureState(version=2), 2, (), 1, 1)
        self.log.commit(self.group)

    def part(self) -> None:
        self.log.write([OutgoingRecord(TOPIC, b"k", b"v", 3, 0)])

    def given_up(self) -> None:
        self.memory.writer(transactional_id("s"))

    def commit(self) -> None:
        self.log.commit(replace(self.group, version=4, state=CaptureState(version=4)))


TOLD = r"takes longer than one of Kafka's may \(source='s', after='bin\.000007:1204', seconds=%d, most=900\)"
FIX = r".*transaction\.max\.timeout\.ms.*transaction\.timeout\.ms.*section `kafka`"


def test_a_source_transaction_that_takes_too_long_is_told_before_kafka_gives_it_up() -> None:
    late = Late()
    late.part()
    late.clock.advance(854)
    late.part()
    late.clock.advance(1)
    with pytest.raises(Terminal, match=TOLD % 855 + FIX) as caught:
        late.part()
    assert not isinstance(caught.value, Fenced)


def test_a_transaction_that_kafka_gave_up_is_told_by_its_length_and_not_as_a_take_over() -> None:
    late = Late()
    late.part()
    late.clock.advance(910)
    late.given_up()
    with pytest.raises(Terminal, match=TOLD % 910 + FIX) as caught:
        late.commit()
    assert not isinstance(caught.value, Fenced)
    assert isinstance(caught.value.__cause__, Fenced)


def test_a_take_over_within_the_time_is_told_as_one() -> None:
    late = Late()
    late.part()
    late.clock.advance(800)
    late.given_up()
    with pytest.raises(Fenced, match="another process has taken over"):
        late.commit()


def test_the_time_begins_anew_with_each_transaction() -> None:
    late = Late()
    for _ in range(2):
        late.part()
        late.clock.advance(850)
        late.commit()
    late.part()
    late.given_up()
    with pytest.raises(Fenced):
        late.part()
