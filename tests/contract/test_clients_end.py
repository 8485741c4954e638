"""Clients end with whoever made them: none of librdkafka's threads is left."""

from __future__ import annotations

import contextlib
import gc
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from include.errors import Fenced, Terminal
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.kafka_group import KafkaGroupLog
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.offsets import KafkaOffsets
from include.log.planning.survey import KafkaSurvey
from include.log.ports import TopicSpec

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
        assert group_log.begun_ms(TopicIdPartition(unique, "", 0), 0) > 0
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


def used_and_left(kafka: str, unique: str) -> tuple[int, int]:
    """How many threads there were, and how many are left once all clients are gone."""
    used = use_all(kafka, unique)
    refuse_all(kafka, unique)
    gc.collect()
    until_s = time.monotonic() + SOON_S
    while (left := len(threads())) and time.monotonic() < until_s:
        time.sleep(0.05)
    return used, left


def test_no_thread_of_a_client_is_left_when_those_who_made_it_are_done(kafka: str, unique: str) -> None:
    # A process of its own: other tests' clients begin threads anew when they have not reached their broker for long.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        used, left = process.submit(used_and_left, kafka, unique).result()
    assert used > 0
    assert left == 0
