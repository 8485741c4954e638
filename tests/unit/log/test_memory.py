"""What the double can do that a test cannot ask of Kafka: compact and retain now."""

from __future__ import annotations

import pytest

from include.clock import ManualClock
from include.errors import Terminal
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec


def filled(*records: tuple[bytes, bytes | None]) -> MemoryLog:
    log = MemoryLog(ManualClock(5_000))
    log.admin().ensure(TopicSpec("t", 1))
    writer = log.writer("w")
    writer.begin()
    for key, value in records:
        writer.append("t", key, value)
    writer.commit()
    return log


def test_compaction_keeps_the_newest_of_each_key_at_its_offset() -> None:
    log = filled((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None))
    log.compact("t")
    assert [(r.offset, r.key, r.value) for r in log.reader().read("t", 0, 0, 5)] == [(2, b"a", b"3"), (3, b"b", None)]
    assert log.reader().end_offsets("t") == {0: 5}


def test_compaction_leaves_an_open_transaction_alone() -> None:
    log = filled((b"a", b"1"))
    writer = log.writer("other")
    writer.begin()
    writer.append("t", b"a", b"2")
    log.compact("t")
    writer.abort()
    assert [r.value for r in log.reader().read("t", 0, 0, log.reader().end_offsets("t")[0])] == [b"1"]


def test_what_retention_took_is_refused() -> None:
    log = filled((b"a", b"1"), (b"b", b"2"))
    log.truncate("t", 0, 1)
    assert log.reader().begin_offsets("t") == {0: 1}
    with pytest.raises(Terminal, match="does not hold"):
        list(log.reader().read("t", 0, 0, 2))
    assert [r.value for r in log.reader().read("t", 0, 1, 3)] == [b"2"]


def test_records_without_a_time_get_the_clocks() -> None:
    (record,) = filled((b"a", b"1")).reader().read("t", 0, 0, 1)
    assert record.timestamp_ms == 5
    assert str(record.at) == "t/0@0"


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Terminal, match="partition"):
        list(filled().reader().read("t", 1, 0, 1))
