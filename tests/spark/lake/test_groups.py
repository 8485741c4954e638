"""Groups of the lake on Spark: tasks in its workers, real Kafka and S3; backup and partition group agree."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from include.clock import SystemClock
from include.errors import Terminal
from include.lake.definition import declared_groups
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.groups_spark import build, require_honest
from include.lake.host import GroupHost
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey, TopicKey
from include.lake.protocol.cut import Commit
from include.lake.writing.task import Task
from include.log.kafka.log import KafkaAdmin, KafkaWriter
from include.log.ports import TopicSpec
from include.log.running.job_pool_spark import SparkJobPool
from include.metrics.progress import RunFolder
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.memory import MemoryStore
from include.store.s3 import S3Store
from tests.support.faults.unsound_stores import IgnoresConditions, KnowsNoConditions, Races

DEPLOYED = """\
kafka: {{bootstrap: "{kafka}"}}
store: {{endpoint: "{endpoint}", bucket: "{bucket}", access_key: "{access}", secret_key: "{secret}"}}
lake:
  raw:
    kind: backup
    application: lake
    topics: ["{unique}.*"]
    prefix: lake/raw
    offset_step: 100
    policy: {{max_bytes: 20000, max_age_s: 3600}}
    run: schedule
    rules: [{{topics: "*", format: {{sequence: {{layout: verbatim, compression: BLOCK}}}}}}]
  by_date:
    kind: partition
    application: lake
    topics: ["{unique}.*"]
    prefix: lake/by_date
    policy: {{max_bytes: 20000, max_age_s: 3600}}
    run: schedule
    rules:
      - topics: "*"
        format: {{json_lines: {{content: payload}}}}
        versions:
          - version: 1
            added: 2026-01-01T00:00:00Z
            parser: {{format: json, time: {{field: [at], unit: s, behind_s: null, ahead_s: null}}}}
"""


class Harness:
    """A deployment of both groups, and what they have stored."""

    def __init__(self, spark: SparkSession, unique: str, folder: Path, kafka: str, s3: Any) -> None:
        self.spark, self.kafka, self.topic, self.folder = spark, kafka, f"{unique}.events", folder
        self.store = S3Store(s3.endpoint, unique, s3.access_key, s3.secret_key)
        self.store.ensure_bucket()
        names = {"endpoint": s3.endpoint, "bucket": unique, "access": s3.access_key, "secret": s3.secret_key}
        (folder / "d.yaml").write_text(DEPLOYED.format(kafka=kafka, unique=unique, **names))
        self.deployment = Deployment.load(folder, {})
        KafkaAdmin(kafka).ensure(TopicSpec(self.topic, 2))

    def flush(self) -> None:
        clock, run = SystemClock(), self.folder / "run"
        run.mkdir(exist_ok=True)
        built = build(self.spark, self.deployment, declared_groups(self.deployment), clock)
        hosted = [(driver, report) for driver, report, _ in built]
        GroupHost("lake", hosted, RunFolder(run, clock), clock, lambda: False).drain(flush=True)
        for *_, pool in built:
            pool.close()

    def commits(self, prefix: str, partition: int, topic: str = "") -> list[Commit]:
        topic = topic or self.topic
        info = KafkaAdmin(self.kafka).describe(topic)
        assert info is not None
        return list(Chain(self.store, ChainKey(TopicKey(prefix, topic, info.named_id), 1, partition)).commits())

    def bodies(self, commit: Commit) -> dict[str, bytes]:
        found = {file.key: self.store.get(file.key) for file in commit.files}
        return {key: each.body for key, each in found.items() if each}


@pytest.fixture
def world(spark: SparkSession, unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[Harness]:
    made = Harness(spark, unique, tmp_path, kafka, s3)
    yield made
    made.store.close()
    KafkaAdmin(kafka).delete(made.topic)


def test_both_groups_store_each_record_once(world: Harness) -> None:
    writer = KafkaWriter(world.kafka, f"{world.topic}-w")
    written: list[list[bytes]] = [[], []]
    for number in range(6):
        writer.begin()
        for value in range(100):
            body = orjson.dumps({"at": 1_700_000_000 + 40_000 * number, "n": number * 100 + value, "pad": "x" * 150})
            written[value % 2].append(body)
            writer.append(world.topic, b"k", body, partition=value % 2)
        writer.append(world.topic, b"k", b"no JSON", partition=0)
        writer.commit()
        if number == 2:
            world.flush()
    writer.close()
    world.flush()
    for partition in (0, 1):
        raw = world.commits("lake/raw", partition)
        assert len(raw) > 2
        stored = [
            message
            for commit in raw
            for body in world.bodies(commit).values()
            for message in SequenceFile(layout="verbatim").read(io.BytesIO(body))
        ]
        assert [each.value for each in stored if each.value != b"no JSON"] == written[partition]
        assert len({each.offset for each in stored}) == len(stored)
        dated = world.commits("lake/by_date", partition)
        lines = [
            line
            for commit in dated
            for key, body in sorted(world.bodies(commit).items())
            if "_quarantine" not in key
            for line in body.splitlines()
        ]
        assert sorted(lines) == sorted(written[partition])
        assert sum(each.quarantined for each in dated) == (6 if partition == 0 else 0)
        folders = {file.key.split("/")[3] for commit in dated for file in commit.files}
        assert folders - {"_quarantine"} == {"dt=2023-11-14", "dt=2023-11-15", "dt=2023-11-16", "dt=2023-11-17"}
        assert dated[-1].next == raw[-1].next


@pytest.mark.parametrize("dishonest", [IgnoresConditions, Races, KnowsNoConditions])
def test_a_store_that_does_not_honour_conditions_is_refused_at_the_start(
    world: Harness, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, dishonest: Callable[[], MemoryStore]
) -> None:
    require_honest(world.deployment.one("store", StoreSettings), clients=4, rounds=3)
    store = dishonest()
    monkeypatch.setattr("include.lake.groups_spark.store_of", lambda _settings: store)
    groups = declared_groups(world.deployment)
    with pytest.raises(Terminal, match="does not honour conditional writes"):
        build(spark, world.deployment, groups, SystemClock())
    assert not [each.key for each in store.list("") if not each.key.startswith("_probe/")]


def test_many_small_ranges_share_jobs_of_spark_and_are_stored(world: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [f"{world.topic}.{number}" for number in range(30)]
    for topic in topics:
        KafkaAdmin(world.kafka).ensure(TopicSpec(topic, 1))
    writer = KafkaWriter(world.kafka, f"{world.topic}-w")
    writer.begin()
    for topic in topics:
        writer.append(topic, b"k", orjson.dumps({"at": 1_700_000_000}))
    writer.commit()
    writer.close()
    jobs: list[int] = []
    submit = SparkJobPool.submit

    def counted(pool: SparkJobPool, *tasks: Task) -> None:
        jobs.append(len(tasks))
        submit(pool, *tasks)

    monkeypatch.setattr(SparkJobPool, "submit", counted)
    try:
        world.flush()
        for topic in topics:
            for prefix in ("lake/raw", "lake/by_date"):
                assert sum(each.n_records for each in world.commits(prefix, 0, topic)) == 1
    finally:
        for topic in topics:
            KafkaAdmin(world.kafka).delete(topic)
    # Two groups, each with a range a topic.
    assert sum(jobs) == 60
    assert len(jobs) < 20
