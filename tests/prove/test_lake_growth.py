"""Groups of the lake on Spark, roll-outs to the end of those that they replace, and topics that Kafka compacts."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from include.audit.chain.audit import ChainAuditOptions, audit_chain
from include.clock import SystemClock
from include.lake.definition import declared_groups
from include.settings.deployment import Deployment
from tests.support.lake.hosted_harness import HostedLakeHarness, opened, same
from tests.support.lake.polling_reader import PollingReader
from tests.support.lake.traffic import Traffic, wait_until


@pytest.fixture
def world(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[HostedLakeHarness]:
    with opened(unique, tmp_path, kafka, s3) as made:
        yield made


def test_on_spark_topics_and_partitions_are_taken_up_and_a_newer_revision_fences_the_older_one(
    world: HostedLakeHarness,
) -> None:
    del world.groups["by_date"]
    steady, traffic = world.topic("steady", 3), Traffic(world.kafka)
    first, second = world.declare(1), world.declare(2)
    traffic.begin(steady)
    application = world.submit(first, "backup")
    wait_until(lambda: world.begun("raw", steady) == {0, 1, 2}, "Spark has begun", 120)
    world.grow(steady, 7)
    later = world.topic("later", 2)
    traffic.begin(later)
    world.taken_up(steady, 7)
    world.taken_up(later, 2)
    # Without Spark: which host runs a group says nothing about who it is.
    newer = world.start(second)
    world.taken_up(later, 2, generation=2)
    assert application.process.wait(90) == 3, application.log()
    assert "newer revision" in application.log()
    traffic.end_all()
    assert newer.stop() == 0, newer.log()
    world.drain(second)
    for topic in (steady, later):
        assert world.is_whole(topic) >= len(traffic.acknowledged[topic])


def test_roll_outs_that_die_at_any_moment_lose_and_double_nothing(world: HostedLakeHarness) -> None:
    chance = random.Random(3)
    topic, traffic = world.topic("events", 3), Traffic(world.kafka)
    world.policy = {"max_bytes": 30_000, "max_age_s": 1, "record_bytes": 100}
    traffic.begin(topic)
    old = world.start(world.declare(1))
    world.taken_up(topic, 3)
    with PollingReader(world, topic) as looks:
        for revision in range(2, 8):
            deployed = world.declare(revision)
            for _ in range(3):
                new = world.start(deployed)
                time.sleep(chance.uniform(1.2, 4))
                new.kill()
            new = world.start(deployed)
            world.taken_up(topic, 3, generation=revision)
            # Ends by itself when it looks, unless it is stopped before.
            assert old.stop() in {0, 3}, old.log()
            old = new
            looks.again()
        world.grow(topic, 5)
        world.taken_up(topic, 5, generation=7)
        traffic.end(topic)
        wait_until(lambda: not world.behind(deployed), "all is stored")
        looks.again()
    assert old.stop() == 0, old.log()
    assert world.is_whole(topic) == looks.records >= len(traffic.acknowledged[topic])


def test_an_older_revision_that_runs_on_is_fenced(world: HostedLakeHarness) -> None:
    topic, traffic = world.topic("events", 2), Traffic(world.kafka)
    first, second = world.declare(1), world.declare(2)
    traffic.begin(topic)
    old = world.start(first)
    world.taken_up(topic, 2)
    new = world.start(second)
    assert old.process.wait(60) == 3, old.log()
    assert "newer revision" in old.log().splitlines()[-1]
    again = world.start(first)
    assert again.process.wait(60) == 3, again.log()
    traffic.end(topic)
    wait_until(lambda: not world.behind(second), "all is stored")
    assert new.stop() == 0, new.log()
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])


def compact(kafka: str, topic: str) -> None:
    """From now on Kafka keeps the newest record of each key."""
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    client = AdminClient({"bootstrap.servers": kafka})
    client.incremental_alter_configs([resource])[resource].result(30)


def test_compaction_leaves_offsets_without_records_and_nothing_is_lost(world: HostedLakeHarness) -> None:
    often = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"}
    topic = world.topic("keyed", 1, **often)
    dated = world.groups.pop("by_date")
    producer: Any = Producer({"bootstrap.servers": world.kafka, "linger.ms": 0})

    def write(count: int) -> None:
        for number in range(count):
            value = None if number % 17 == 16 else json.dumps({"at": 1_700_000_000, "n": number}).encode()
            producer.produce(topic, value, b"k%d" % (number % 20), partition=0)
            if number % 50 == 0:
                producer.flush(10)
        assert producer.flush(10) == 0

    write(2000)
    whole = world.committed(topic)
    assert len(whole) == 2000
    world.drain(world.declare())
    same(world.records("raw", world.objects("raw", topic)), whole, "raw")
    compact(world.kafka, topic)

    def compacted() -> bool:
        time.sleep(1)
        write(1)
        return len(world.committed(topic)) < 500

    wait_until(compacted, "Kafka compacts the topic", 120)
    left = world.committed(topic)
    # A group that begins now finds the rest, and one that goes on has all that ever was.
    dated["rules"][0]["versions"][0]["parser"]["tombstones"] = "drop"
    world.groups["by_date"] = dated
    deployed = world.declare()
    world.drain(deployed)
    later = world.committed(topic)
    kept = world.records("by_date", world.objects("by_date", topic))
    assert {place for place, each in later.items() if each.value is not None} <= kept.keys()
    assert kept.items() <= {**left, **later}.items()
    raw = world.records("raw", world.objects("raw", topic))
    assert {**whole, **left, **later}.items() <= raw.items()
    groups = declared_groups(Deployment.load(deployed, {}))
    report = audit_chain(
        world.store, groups, topic, SystemClock().now_us(), ChainAuditOptions("bytes", compacted=lambda _topic: True)
    )
    assert report.findings == ()
