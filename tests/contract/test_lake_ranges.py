"""The lake's view of a log: Kafka and the log in memory give the same batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.clock import SystemClock
from include.errors import Terminal, Transient
from include.lake.message import Message
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.reading.log_ranges import LogRanges, PortRanges
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.memory import MemoryLog
from include.log.ports import LogReader, LogWriter, TopicSpec


class Harness:
    """A topic of two partitions with a writer."""

    def __init__(self, ranges: LogRanges, writer: LogWriter, reader: LogReader, topic: str) -> None:
        self.ranges, self.writer, self.reader, self.topic = ranges, writer, reader, topic

    def write(self, *values: bytes | None, partition: int = 0, commit: bool = True) -> None:
        self.writer.begin()
        for number, value in enumerate(values):
            headers = (("a", b"1"), ("a", None)) if number else ()
            self.writer.append(
                self.topic,
                b"k" if number else None,
                value,
                headers=headers,
                partition=partition,
                timestamp_ms=5 + number,
            )
        ends = self.writer.next_offsets()
        self.writer.commit() if commit else self.writer.abort()
        until_s = SystemClock().monotonic_s() + 20
        while self.reader.end_offsets(self.topic)[partition] <= ends[self.topic, partition] - 1:
            assert SystemClock().monotonic_s() < until_s
            SystemClock().sleep(0.01)

    def read(self, start: int, end: int, partition: int = 0) -> list[Message]:
        batches = list(self.ranges.batches(self.topic, partition, start, end))
        assert all(batch.messages for batch in batches)
        return [message for batch in batches for message in batch.messages]


@pytest.fixture(params=["memory", "kafka"])
def world(request: pytest.FixtureRequest, unique: str) -> Iterator[Harness]:
    if request.param == "memory":
        log = MemoryLog()
        log.admin().ensure(TopicSpec(unique, 2))
        yield Harness(PortRanges(log.reader(), log.admin()), log.writer("w"), log.reader(), unique)
        return
    bootstrap = request.getfixturevalue("kafka")
    admin = KafkaAdmin(bootstrap)
    admin.ensure(TopicSpec(unique, 2))
    reader, writer = KafkaReader(bootstrap), KafkaWriter(bootstrap, f"{unique}-w")
    yield Harness(KafkaRanges(bootstrap), writer, reader, unique)
    writer.close()
    reader.close()
    admin.delete(unique)


def test_all_of_a_record_comes_null_unlike_empty(world: Harness) -> None:
    world.write(None, b"", b"x")
    assert world.read(0, 3) == [
        Message(0, None, None, (), 5, 1),
        Message(1, b"k", b"", (("a", b"1"), ("a", None)), 6, 1),
        Message(2, b"k", b"x", (("a", b"1"), ("a", None)), 7, 1),
    ]


def test_ranges_are_half_open_and_gaps_are_passed_over(world: Harness) -> None:
    world.write(b"0", b"1")
    world.write(b"aborted", commit=False)
    world.write(b"5", b"6")
    begin, end = world.ranges.edges(world.topic, 0)
    assert (begin, end) == (0, 8)
    assert [each.offset for each in world.read(0, end)] == [0, 1, 5, 6]
    assert [each.offset for each in world.read(1, 6)] == [1, 5]
    assert world.read(2, 5) == world.read(3, 3) == []
    assert world.ranges.edges(world.topic, 1) == (0, 0)


def test_a_range_that_is_left_half_way_can_be_read_again(world: Harness) -> None:
    world.write(*(b"%d" % number for number in range(5000)))
    batches = world.ranges.batches(world.topic, 0, 0, 5000)
    first = next(batches).messages
    del batches
    assert world.read(0, 5000)[: len(first)] == first
    assert len(world.read(first[-1].offset + 1, 5000)) == 5000 - len(first)


def test_a_partition_that_is_not_there_is_named(world: Harness) -> None:
    # Kafka cannot tell it from one whose leader is away.
    with pytest.raises((Terminal, Transient), match=r"partition does not exist|partition=7"):
        world.ranges.edges(world.topic, 7)


def test_the_leader_of_the_last_record_below_an_offset_is_told_past_what_is_no_record(world: Harness) -> None:
    world.write(b"a", b"b")
    for _ in range(12):
        world.write(b"aborted", b"too", commit=False)
    _, end = world.ranges.edges(world.topic, 0)
    (batch,) = world.ranges.batches(world.topic, 0, 0, end)
    assert end > 30
    assert len(batch.messages) == 2
    assert world.ranges.epoch_before(world.topic, 0, end) == batch.leader_epoch
    assert world.ranges.epoch_before(world.topic, 0, 0) is None
    assert world.ranges.epoch_before(world.topic, 1, 0) is None
    assert (batch.leader_epoch is None) == isinstance(world.ranges, PortRanges)
