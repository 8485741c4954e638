"""A topic restored on a real Kafka from a real S3 server: record for record, once, and groups go on in it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from include.clock import SystemClock
from include.errors import LyrebirdError, SettingsError, Terminal
from include.lake.backfill.planning import LakeStore
from include.lake.message import Message
from include.lake.protocol.chain_key import TopicKey
from include.lake.reading.kafka_ranges import KafkaRanges
from include.lake.reading.kept_schemas import SchemaKeeper
from include.lake.restore.copying import RestoreLog, TransactionLimits, copy
from include.lake.restore.deployed import DeployedRestore, kafka_of
from include.lake.restore.groups import committed_of, translate
from include.lake.restore.manifest import begin
from include.lake.restore.plan import RestoreAsked
from include.lake.restore.planning import make_plan
from include.lake.restore.request import RestoreRequest
from include.lake.restore.result import RestoreResult
from include.lake.restore.schema_ids import SchemaIds
from include.lake.writing.lag_offsets import LagOffsets, consumer_group
from include.lake.writing.planner import GroupPlanner
from include.lake.writing.report import GroupReport
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.offsets import KafkaOffsets
from include.log.ports import LogWriter, TopicInfo, TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.log.registry.memory import MemoryRegistry
from include.record.codec import Decoder, Encoder
from include.settings.connections import Kafka as KafkaSettings
from include.settings.deployment import Deployment
from tests.support.lake.driven_group import DrivenGroup

OLD_MS = 1_000_000_000_000  # 2001: far behind any retention


@pytest.fixture
def group(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[DrivenGroup]:
    made = DrivenGroup(unique, tmp_path, kafka, s3)
    yield made
    made.threads.shutdown()
    made.store.close()
    for name in KafkaAdmin(kafka).names():
        if name.startswith(unique):
            KafkaAdmin(kafka).delete(name)


def filled(group: DrivenGroup, config: Mapping[str, str] | None = None) -> str:
    """Two partitions of records of every shape, with aborted ones among them."""
    topic = f"{group.unique}.events"
    KafkaAdmin(group.kafka).ensure(TopicSpec(topic, 2, {"retention.ms": "-1", **(config or {})}))
    writer = KafkaWriter(group.kafka, f"{group.unique}-w")
    for number in range(12):
        writer.begin()
        for place in range(30):
            at = number * 30 + place
            writer.append(
                topic,
                b"k%d" % at if at % 7 else None,
                (b"x" * place if place % 4 else b"") if at % 11 else None,
                headers=(("n", b"%d" % at), ("n", None), ("", b""))[: at % 4],
                partition=at % 2,
                timestamp_ms=OLD_MS + at,
            )
        if number % 4 == 3:
            writer.next_offsets()
            writer.abort()
        else:
            writer.commit()
        if number == 5:
            group.flush()
    writer.close()
    group.flush()
    assert group.errors == []
    return topic


def messages(kafka: str, topic: str, partition: int) -> list[Message]:
    # A broker says that a transaction is committed before its records can be read.
    until_s = time.monotonic() + 30
    while KafkaReader(kafka).unended([topic]) and time.monotonic() < until_s:
        time.sleep(0.05)
    ranges = KafkaRanges(kafka)
    begin_at, end = ranges.edges(topic, partition)
    return [each for batch in ranges.batches(topic, partition, begin_at, end) for each in batch.messages]


def content(kafka: str, topic: str, partition: int) -> list[Message]:
    return [each._replace(offset=0) for each in messages(kafka, topic, partition)]


def restore(
    group: DrivenGroup,
    topic: str,
    target: str,
    kafka: RestoreLog | None = None,
    most: int = 50,
    groups: tuple[str, ...] = (),
    registry: ConfluentRegistry | None = None,
) -> RestoreResult:
    kafka = kafka or kafka_of(KafkaSettings(bootstrap=group.kafka))
    info = KafkaAdmin(group.kafka).describe(topic)
    assert info is not None
    source, bucket = TopicKey(group.group.prefix, topic, info.named_id), LakeStore(group.store)
    plan = make_plan(bucket, kafka.admin, source, RestoreAsked(topic, target, keep_ids=registry is None))
    committed = committed_of(kafka, source, groups)
    begun = begin(bucket, kafka.reader, kafka.admin, plan)
    ids = SchemaIds(registry, group.store, source.prefix, target) if registry else None
    maps = copy(bucket, kafka, begun, SystemClock(), lambda _done, _total: None, TransactionLimits(most), ids)
    translated = translate(kafka, bucket, begun, maps, committed)
    return RestoreResult(begun, maps, translated, ids.replaced if ids else ())


class Died(Exception):
    """The process is gone."""


class Dying:
    """A writer whose process ends before or after its n-th durable step, with its connection left as it is."""

    def __init__(self, inner: LogWriter, left: int) -> None:
        self.inner, self._left = inner, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Died

    def next_offsets(self) -> dict[tuple[str, int], int]:
        found = self.inner.next_offsets()
        self._step()
        return found

    def commit(self, group: str | None = None, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        self.inner.commit(group, offsets)
        self._step()

    def close(self) -> None:
        """Not."""


def test_a_restored_topic_has_every_record_once_whatever_cut_it_off(group: DrivenGroup) -> None:
    topic, target = filled(group), f"{group.unique}.copy"
    real = kafka_of(KafkaSettings(bootstrap=group.kafka))
    zombies: list[Dying] = []

    def dying(transactional_id: str) -> LogWriter:
        zombies.append(Dying(real.open_writer(transactional_id), 1 + len(zombies)))
        return zombies[-1]

    for _ in range(5):
        with pytest.raises(Died):
            restore(group, topic, target, RestoreLog(real.reader, real.admin, dying), most=20)
    restored = restore(group, topic, target)
    for partition in (0, 1):
        assert content(group.kafka, target, partition) == content(group.kafka, topic, partition)
    assert restored.totals.records == 270
    assert restored.totals.redated == 0
    for zombie in zombies:
        with pytest.raises(LyrebirdError):
            zombie.inner.commit("nobody", {(target, 0): 1})
        zombie.inner.close()
    assert restore(group, topic, target).maps == restored.maps
    for partition in (0, 1):
        assert content(group.kafka, target, partition) == content(group.kafka, topic, partition)


def test_groups_go_on_with_the_record_that_they_had_not_read(group: DrivenGroup) -> None:
    topic, target = filled(group), f"{group.unique}.copy"
    ends = KafkaReader(group.kafka).end_offsets(topic)
    committed = {f"{group.unique}-g{at}": at for at in (0, 1, 17, 60, 61, 62, 100, ends[0])}
    writer = KafkaWriter(group.kafka, f"{group.unique}-c")
    for name, at in committed.items():
        writer.begin()
        writer.commit(name, {(topic, 0): at})
    writer.close()
    restored = restore(group, topic, target, groups=tuple(committed))
    assert {each.how for each in restored.groups} >= {"same", "end"}
    for name, at in committed.items():
        new = KafkaReader(group.kafka).committed(name, target)[0]
        old = [each._replace(offset=0) for each in messages(group.kafka, topic, 0) if each.offset >= at]
        assert [each._replace(offset=0) for each in messages(group.kafka, target, 0) if each.offset >= new] == old


def test_what_a_client_cannot_write_is_counted(group: DrivenGroup) -> None:
    topic = filled(group, {"message.timestamp.type": "LogAppendTime"})
    restored = restore(group, topic, f"{group.unique}.copy")
    assert (restored.totals.broker_dated, restored.totals.redated) == (270, 0)
    for partition in (0, 1):
        old = content(group.kafka, topic, partition)
        assert {each.timestamp_type for each in old} == {2}
        assert content(group.kafka, f"{group.unique}.copy", partition) == [
            each._replace(timestamp_type=1) for each in old
        ]


def test_timestamps_before_1970_and_none_are_written_as_they_were(group: DrivenGroup) -> None:
    topic, target = f"{group.unique}.events", f"{group.unique}.copy"
    KafkaAdmin(group.kafka).ensure(TopicSpec(topic, 1, {"retention.ms": "-1"}))
    producer: Any = Producer({"bootstrap.servers": group.kafka})
    for timestamp_ms in (-1, -5, 1, OLD_MS, -1):
        producer.produce(topic, b"v", partition=0, timestamp=timestamp_ms)
    producer.flush(10)
    group.flush()
    restored = restore(group, topic, target)
    assert restored.totals.redated == 0
    assert content(group.kafka, target, 0) == content(group.kafka, topic, 0)
    assert [each.timestamp_ms for each in content(group.kafka, target, 0)] == [-1, -5, 1, OLD_MS, -1]


def test_who_has_kept_offsets_is_told_which_records_are_where(group: DrivenGroup, tmp_path: Path) -> None:
    topic, target = filled(group), f"{group.unique}.copy"
    lake = {"raw": group.group.model_dump(mode="json", exclude_unset=True)}
    (tmp_path / "all.yaml").write_text(
        yaml.safe_dump({"lake": lake, "applications": {"lake": {"entry": "spark_apps/lake_backup.py"}}})
    )
    deployment, kafka = Deployment.load(tmp_path, {}), kafka_of(KafkaSettings(bootstrap=group.kafka))
    deployed, request = (
        DeployedRestore(deployment, LakeStore(group.store), kafka, SystemClock()),
        RestoreRequest(topic=topic, target=target),
    )
    with pytest.raises(SettingsError, match="was not restored there"):
        deployed.spans(request)
    deployed.perform(deployed.plan(request), lambda _done, _total: None, TransactionLimits(50))
    spans = deployed.spans(request)
    for partition in (0, 1):
        old, new = (
            {each.offset: (each.key, each.value) for each in messages(group.kafka, name, partition)}
            for name in (topic, target)
        )
        places = {was + n: now + n for was, now, count in spans[partition] for n in range(count)}
        assert places.keys() == old.keys()
        assert {was: new[now] for was, now in places.items()} == old


def test_somebody_who_writes_to_the_target_is_found(group: DrivenGroup) -> None:
    topic, target = filled(group), f"{group.unique}.copy"
    real = kafka_of(KafkaSettings(bootstrap=group.kafka))
    with pytest.raises(Died):
        restore(
            group, topic, target, RestoreLog(real.reader, real.admin, lambda name: Dying(real.open_writer(name), 4))
        )
    foreign: Any = Producer({"bootstrap.servers": group.kafka})
    foreign.produce(target, b"foreign", partition=0)
    foreign.flush(10)
    with pytest.raises(Terminal, match="somebody else writes"):
        restore(group, topic, target)


def test_lag_tools_see_how_far_a_group_is(group: DrivenGroup) -> None:
    topic = filled(group)
    info = KafkaAdmin(group.kafka).describe(topic)
    assert info is not None
    planner, report, clock = GroupPlanner(group.group), GroupReport("raw"), SystemClock()
    planner.on_topics([TopicInfo(topic, info.topic_id, 2)])
    for tp in planner.headless():
        planner.on_head(tp, 100 + tp.partition)
    name = consumer_group(group.unique)
    lag = LagOffsets(KafkaOffsets(group.kafka, name), clock)
    lag.show(report, planner)
    lag.close(report, planner)
    assert report.offset_failures == 0
    assert KafkaReader(group.kafka).committed(name, topic) == {0: 100, 1: 101}


def test_an_absent_kafka_is_counted_and_holds_nothing_up(group: DrivenGroup) -> None:
    planner, report, clock = GroupPlanner(group.group), GroupReport("raw"), SystemClock()
    planner.on_topics([TopicInfo(f"{group.unique}.x", "an-id", 1)])
    for tp in planner.headless():
        planner.on_head(tp, 5)
    lag = LagOffsets(KafkaOffsets("127.0.0.1:9", "g"), clock)
    began_s = clock.monotonic_s()
    lag.show(report, planner)
    lag.close(report, planner)
    assert clock.monotonic_s() - began_s < 10


def test_a_topic_is_restored_so_that_a_registry_without_its_schemas_can_read_it(
    group: DrivenGroup, registry_url: str
) -> None:
    key: dict[str, Any] = {"type": "record", "name": "id", "fields": [{"name": "id", "type": "string"}]}
    value: dict[str, Any] = {
        "type": "record",
        "name": group.unique.replace("-", "_").replace(".", "_"),
        "fields": [{"name": "n", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}}],
    }
    narrow = {**value, "fields": value["fields"][:1]}
    topic, target = f"{group.unique}.framed", f"{group.unique}.copy"
    # Ids that the real registry has not given yet.
    old = MemoryRegistry()
    for number in range(5_000):
        old.register(f"s{number}", {"type": "fixed", "name": f"f{number}", "size": 1})
    keys = Encoder(old.register("k", key), key)
    values = [Encoder(old.register("v", schema, "NONE"), schema) for schema in (narrow, value)]
    KafkaAdmin(group.kafka).ensure(TopicSpec(topic, 1, {"retention.ms": "-1"}))
    writer = KafkaWriter(group.kafka, f"{group.unique}-w")
    writer.begin()
    rows = [({"n": 1}, 0), ({"n": 2, "tags": ["x"]}, 1)] * 20
    for number, (row, schema) in enumerate(rows):
        writer.append(topic, keys({"id": f"k{number}"}), values[schema](row), timestamp_ms=OLD_MS)
    writer.commit()
    writer.close()
    group.flush()
    SchemaKeeper(group.store, group.group.prefix, old, SystemClock()).keep(
        {keys({"id": ""})[:5], *(values[schema](row)[:5] for row, schema in rows)}
    )
    registry = ConfluentRegistry(registry_url)
    try:
        restored = restore(group, topic, target, registry=registry)
        again = restore(group, topic, target, registry=registry)
        decoded = Decoder(registry.schema)
        found = messages(group.kafka, target, 0)
        assert [decoded(each.value) for each in found if each.value] == [row for row, _ in rows]
        assert [decoded(each.key) for each in found if each.key] == [{"id": f"k{n}"} for n in range(len(rows))]
        assert restored.totals.rewritten == again.totals.rewritten == len(rows)
        assert sorted((each.part, each.old) for each in restored.schema_ids) == [
            ("key", 5_001),
            ("value", 5_002),
            ("value", 5_003),
        ]
    finally:
        registry.close()
