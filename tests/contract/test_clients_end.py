"""Clients end with whoever made them: none of librdkafka's threads is left."""

from __future__ import annotations

import contextlib
import gc
import time
from pathlib import Path

import pytest

from include.errors import Fenced, Terminal
from include.lake.kafka_group import KafkaGroupLog
from include.lake.planner import Spot
from include.log.kafka import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka_offsets import KafkaOffsets
from include.log.ports import TopicSpec
from include.log.survey import KafkaSurvey

SOON_S = 60


def threads() -> set[str]:
    """Ids of librdkafka's threads in this process."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


def write(writer: KafkaWriter, topic: str) -> None:
    """A record, with an offset of the group of the same name."""
    writer.begin()
    writer.append(topic, b"k", b"v")
    writer.commit(topic, {(topic, 0): 1})


def use_all(kafka: str, unique: str) -> int:
    """Ask each client something, and close those that are closed; gives how many threads there were meanwhile."""
    admin, survey, reader = KafkaAdmin(kafka), KafkaSurvey(kafka), KafkaReader(kafka)
    admin.ensure(TopicSpec(unique, 1))
    writer, offsets = KafkaWriter(kafka, unique), KafkaOffsets(kafka, f"{unique}-lag")
    group_log = KafkaGroupLog(kafka)
    try:
        write(writer, unique)
        assert [record.value for record in reader.read(unique, 0, 0, 1)] == [b"v"]
        assert reader.committed(unique, unique) == {0: 1}
        assert survey.offsets([(unique, 0)], "begin") == {(unique, 0): 0}
        assert group_log.begun_ms(Spot(unique, "", 0), 0) > 0
        return len(threads())
    finally:
        writer.close()
        reader.close()
        offsets.close()


def refuse_all(kafka: str, unique: str) -> None:
    """The same where Kafka refuses: an error must not keep its client."""
    reader = KafkaReader(kafka)
    with pytest.raises(Terminal):
        reader.end_offsets(f"{unique}-gone")
    with pytest.raises(Terminal):
        list(reader.read(unique, 0, 7, 9))
    reader.close()
    writer, other = KafkaWriter(kafka, f"{unique}-2"), KafkaWriter(kafka, f"{unique}-2")
    with pytest.raises(Fenced):
        write(writer, unique)
    writer.close()
    other.close()


def test_no_thread_of_a_client_is_left_when_those_who_made_it_are_done(kafka: str, unique: str) -> None:
    gc.collect()
    before = threads()
    assert use_all(kafka, unique) > len(before)
    refuse_all(kafka, unique)
    gc.collect()
    until_s = time.monotonic() + SOON_S
    while left := threads() - before:
        assert time.monotonic() < until_s, f"{len(left)} threads are left"
        time.sleep(0.05)
