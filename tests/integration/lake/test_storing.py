"""A group's driver on a real Kafka and a real S3 server: every committed record in one object, read back equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.clock import SystemClock
from include.lake.reading.group_log import TopicIdPartition
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.reading.kafka_ranges import KafkaRanges
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.ports import TopicSpec
from tests.support.lake.driven_group import DrivenGroup


@pytest.fixture
def group(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[DrivenGroup]:
    made = DrivenGroup(unique, tmp_path, kafka, s3)
    yield made
    made.threads.shutdown()
    made.store.close()
    for name in KafkaAdmin(kafka).names():
        if name.startswith(unique):
            KafkaAdmin(kafka).delete(name)


def test_every_committed_record_is_stored_once_and_comes_back_as_it_was(group: DrivenGroup) -> None:
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


def test_timestamps_of_many_partitions_are_asked_at_once_whatever_gaps_there_are(group: DrivenGroup) -> None:
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
    tps = [TopicIdPartition(topic, info.named_id, partition) for partition in range(4)]
    gone = TopicIdPartition(f"{topic}.gone", "id", 0)
    log = KafkaGroupLog(group.kafka)
    # Behind partition 1's first record stand a marker, aborted records and a marker.
    offsets = {tps[0]: 0, tps[1]: 1, tps[2]: 0, tps[3]: 0, gone: 0}
    assert log.timestamps_ms(offsets) == {
        tps[0]: now + 1,
        tps[1]: now + 4,
        tps[2]: now + 5,
        tps[3]: -1,
        gone: -1,
    }
    assert log.timestamps_ms({tps[0]: 2, tps[1]: 0}) == {tps[0]: -1, tps[1]: now + 2}
