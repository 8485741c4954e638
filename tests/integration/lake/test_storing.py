"""A group's driver on a real Kafka and a real S3 server: every committed record in one object, read back equal."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.lake.definition import LakeGroup
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.message import Message
from include.lake.parsing.definition import ParserContext as ParserMeans
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import Spot
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.writing.driver import Driver
from include.lake.writing.planner import Remade
from include.lake.writing.task import Outcome, Task, TaskContext, run_task
from include.lake.writing.topic_pipelines import logics_of
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.ports import TopicSpec
from include.store.s3 import S3Store


class Group:
    """A backup of the topics that begin with a name of the test's own; tasks run in two threads."""

    def __init__(self, unique: str, folder: Path, kafka: str, bucket: Any) -> None:
        self.unique, self.folder, self.kafka = unique, folder, kafka
        self.store = S3Store(bucket.endpoint, unique, bucket.access_key, bucket.secret_key)
        self.store.ensure_bucket()
        self.group = LakeGroup.model_validate(
            {
                "kind": "backup",
                "application": "lake",
                "topics": [f"{unique}*"],
                "prefix": "lake/raw",
                "offset_step": 1000,
                "policy": {"max_bytes": 100_000, "max_age_s": 3600},
                "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
            }
        )
        self.threads = ThreadPoolExecutor(2)
        self.local = threading.local()
        self.running: list[Future[Outcome]] = []
        self.errors: list[LyrebirdError] = []

    slots, together = 2, 1

    def submit(self, *tasks: Task) -> None:
        self.running += [self.threads.submit(self._run, task) for task in tasks]

    def _run(self, task: Task) -> Outcome:
        topic = task.range.spot.topic
        logics = logics_of("raw", self.group, topic, ParserMeans(self.folder))
        if not hasattr(self.local, "log"):
            self.local.log = KafkaRanges(self.kafka)
        return run_task(task, TaskContext(self.store, self.local.log, logics, self.folder, SystemClock()))

    def finished(self) -> list[Outcome]:
        done = [each for each in self.running if each.done()]
        self.running = [each for each in self.running if each not in done]
        return [each.result() for each in done]

    def on_outcome(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.errors.append(outcome.error)

    def on_lost(self, remade: Remade) -> None:
        raise AssertionError(remade)

    def on_away(self, error: LyrebirdError) -> None:
        self.errors.append(error)

    def on_back(self) -> None:
        """They answer again."""

    def flush(self) -> None:
        """As a run on a schedule does."""
        clock = SystemClock()
        driver = Driver("raw", self.group, KafkaGroupLog(self.kafka), self.store, self, clock, self, "test")
        driver.freeze()
        until_s = clock.monotonic_s() + 60
        while driver.left("flush"):
            driver.step("flush")
            clock.sleep(0.01)
            assert clock.monotonic_s() < until_s, self.errors

    def commits(self, topic: str, partition: int) -> list[Commit]:
        info = KafkaAdmin(self.kafka).describe(topic)
        assert info is not None
        chain = ChainKey(TopicKey(self.group.prefix, topic, info.named_id), 1, partition)
        return list(Chain(self.store, chain).commits())

    def stored(self, topic: str, partition: int) -> list[Message]:
        found = []
        for commit in self.commits(topic, partition):
            for file in commit.files:
                body = self.store.get(file.key)
                assert body is not None
                found += list(SequenceFile(layout="verbatim").read(io.BytesIO(body.body)))
        return found


@pytest.fixture
def group(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[Group]:
    made = Group(unique, tmp_path, kafka, s3)
    yield made
    made.threads.shutdown()
    made.store.close()
    for name in KafkaAdmin(kafka).names():
        if name.startswith(unique):
            KafkaAdmin(kafka).delete(name)


def test_every_committed_record_is_stored_once_and_comes_back_as_it_was(group: Group) -> None:
    topic = f"{group.unique}.events"
    KafkaAdmin(group.kafka).ensure(TopicSpec(topic, 3))
    writer = KafkaWriter(group.kafka, f"{group.unique}-w")
    written: dict[int, list[tuple[bytes | None, bytes | None]]] = {0: [], 1: [], 2: []}
    for number in range(30):
        writer.begin()
        for value in range(100):
            partition = (number + value) % 3
            record = (b"%d" % value if value % 7 else None, b"x" * value if value % 11 else None)
            writer.append(topic, *record, headers=(("n", b"%d" % number), ("n", None)), partition=partition)
            if number % 5:
                written[partition].append(record)
        if number % 5:
            writer.commit()
        else:
            writer.next_offsets()
            writer.abort()
        if number == 14:
            group.flush()
    group.flush()
    writer.close()
    assert group.errors == []
    for partition, expected in written.items():
        stored = group.stored(topic, partition)
        assert [(each.key, each.value) for each in stored] == expected
        assert [each.offset for each in stored] == sorted({each.offset for each in stored})
        assert all(len(each.headers) == 2 and each.timestamp_type == 1 for each in stored)
        commits = group.commits(topic, partition)
        assert [each.next for each in commits[:-1]] == [each.first for each in commits[1:]]
        assert commits[-1].next == KafkaRanges(group.kafka).edges(topic, partition)[1]
        assert all(each.leader_epoch is not None and not each.gaps for each in commits)
    assert len(group.commits(topic, 0)) > 1


def test_timestamps_of_many_partitions_are_asked_at_once_whatever_gaps_there_are(group: Group) -> None:
    topic = f"{group.unique}.ages"
    # Of today: Kafka removes what is older than its retention, whenever it looks.
    now = SystemClock().now_us() // 1000
    KafkaAdmin(group.kafka).ensure(TopicSpec(topic, 4))
    writer = KafkaWriter(group.kafka, f"{group.unique}-w")
    writer.begin()
    writer.append(topic, None, b"first", partition=0, timestamp_ms=now + 1)
    writer.append(topic, None, b"first", partition=1, timestamp_ms=now + 2)
    writer.commit()
    writer.begin()
    for _ in range(400):
        writer.append(topic, None, b"aborted", partition=1, timestamp_ms=now + 3)
    writer.next_offsets()
    writer.abort()
    writer.begin()
    writer.append(topic, None, b"last", partition=1, timestamp_ms=now + 4)
    writer.append(topic, None, b"other", partition=2, timestamp_ms=now + 5)
    writer.commit()
    writer.close()
    info = KafkaAdmin(group.kafka).describe(topic)
    assert info is not None
    spots = [Spot(topic, info.named_id, partition) for partition in range(4)]
    gone = Spot(f"{topic}.gone", "id", 0)
    log = KafkaGroupLog(group.kafka)
    # Behind partition 1's first record stand a marker, aborted records and a marker.
    offsets = {spots[0]: 0, spots[1]: 1, spots[2]: 0, spots[3]: 0, gone: 0}
    assert log.timestamps_ms(offsets) == {
        spots[0]: now + 1,
        spots[1]: now + 4,
        spots[2]: now + 5,
        spots[3]: -1,
        gone: -1,
    }
    assert log.timestamps_ms({spots[0]: 2, spots[1]: 0}) == {spots[0]: -1, spots[1]: now + 2}
