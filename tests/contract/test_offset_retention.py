"""A broker deletes a group's offsets that nobody commits anew, partition by partition; the double does as it does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.memory import MemoryLog
from include.log.ports import LogReader, LogWriter, TopicSpec
from tests.support.log.broker import broker

GROUP = "app.copy.0"
# The shortest that Kafka takes, and how often it looks.
RETENTION = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}

pytestmark = pytest.mark.timeout(240)


def committed(writer: LogWriter, **ends: int) -> None:
    """One transaction of a record and these input offsets."""
    writer.begin()
    writer.append("copy", b"k", b"v")
    writer.commit(GROUP, {(topic, 0): end for topic, end in ends.items()})


def gone_after_s(reader: LogReader, topic: str) -> float:
    began_s = time.monotonic()
    while reader.committed(GROUP, topic):
        assert time.monotonic() - began_s < 120, "offsets stay"
        time.sleep(0.5)
    return time.monotonic() - began_s


def test_an_offset_that_is_not_committed_anew_goes_and_others_of_its_group_stay(tmp_path: Path) -> None:
    with broker(tmp_path, RETENTION) as kafka:
        admin, reader = KafkaAdmin(kafka.address), KafkaReader(kafka.address)
        for topic in ("copy", "quiet", "busy"):
            admin.ensure(TopicSpec(topic, 1, {}))
        writer = KafkaWriter(kafka.address, GROUP)
        try:
            committed(writer, quiet=4, busy=7)
            time.sleep(30)
            committed(writer, busy=9)
            assert reader.committed(GROUP, "quiet") == {0: 4}
            assert gone_after_s(reader, "quiet") > 5
            assert reader.committed(GROUP, "busy") == {0: 9}, "the group is there, and its writer"
            committed(writer, quiet=5)
            assert reader.committed(GROUP, "quiet") == {0: 5}
        finally:
            writer.close()
            reader.close()


def test_the_double_forgets_a_group_and_takes_its_next_offsets() -> None:
    log = MemoryLog()
    for topic in ("copy", "quiet"):
        log.admin().ensure(TopicSpec(topic, 1, {}))
    writer = log.writer(GROUP)
    committed(writer, quiet=4)
    log.expire("other")
    assert log.reader().committed(GROUP, "quiet") == {0: 4}
    log.expire(GROUP)
    assert log.reader().committed(GROUP, "quiet") == {}
    committed(writer, quiet=5)
    assert log.reader().committed(GROUP, "quiet") == {0: 5}
