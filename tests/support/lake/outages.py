"""Drills: what groups of the lake need goes away, for as long as a test wants, under traffic."""

from __future__ import annotations

import io
import struct
import time
from urllib.parse import urlsplit

import fastavro
import psutil
from confluent_kafka import Producer

from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.log.registry.confluent import ConfluentRegistry
from tests.support.faults.faulty_store import FaultyStore
from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.lake.hosted_application import Hosted
from tests.support.lake.hosted_harness import HostedLakeHarness
from tests.support.lake.traffic import Traffic, wait_until
from tests.support.log.broker import Broker
from tests.support.servers.addresses import moved

__all__ = ["bears_faults", "meets_trouble"]

# More than what an application may take while it waits.
_MORE_MB = 80


class Registered:
    """A topic of Avro records, whose schemas stand in a registry that groups reach through a proxy alone."""

    def __init__(self, world: HostedLakeHarness, registry_url: str) -> None:
        found = urlsplit(registry_url)
        assert found.hostname
        assert found.port
        self.there = found.hostname, found.port
        self.proxy = TcpProxy(*self.there)
        self._registry, self._kafka, self._count = ConfluentRegistry(registry_url), world.kafka, 0
        self.topic = world.topic("typed", 2)
        world.registry = {"url": moved(registry_url, "127.0.0.1", self.proxy.port)}
        parser = {"format": "avro", "time": {"field": ["at"], "unit": "ms", "behind_s": None, "ahead_s": None}}
        rule = {
            "topics": self.topic,
            "format": {"json_lines": {"content": "message"}},
            "versions": [{"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}],
        }
        world.groups["by_date"]["rules"] = [rule, *world.groups["by_date"]["rules"]]

    def write(self, *fields: str) -> None:
        """Fifty records of a schema of its own, with these fields beside `at`."""
        named = [{"name": "at", "type": "long"}, *({"name": name, "type": ["null", "long"]} for name in fields)]
        schema = {"type": "record", "name": "Typed", "fields": named}
        schema_id = self._registry.register(f"{self.topic}-value", schema, "NONE")
        producer = Producer({"bootstrap.servers": self._kafka})
        for _ in range(50):
            self._count += 1
            body = io.BytesIO(struct.pack(">bi", 0, schema_id))
            body.seek(0, io.SEEK_END)
            fastavro.schemaless_writer(
                body, schema, {"at": 1_700_000_000_000 + self._count, **dict.fromkeys(fields, 1)}
            )
            producer.produce(self.topic, body.getvalue(), b"k", partition=self._count % 2)
        assert producer.flush(30) == 0

    def away(self) -> None:
        """Nothing listens there."""
        self.proxy.target = ("127.0.0.1", 1)
        self.proxy.reset()

    def back(self) -> None:
        self.proxy.target = self.there


def stays_up(application: Hosted, before_mb: int) -> None:
    """It runs, and what waits lies in the log, not in its memory."""
    assert application.process.poll() is None, application.log()
    assert memory_mb(application) < before_mb + _MORE_MB


def memory_mb(application: Hosted) -> int:
    return int(psutil.Process(application.process.pid).memory_info().rss) >> 20


def heads(world: HostedLakeHarness, group: str, topic: str, partitions: int) -> list[int]:
    key = world.pointer(group, topic)
    return [Chain(world.store, ChainKey(key, 1, p)).head().next for p in range(partitions)]


def goes_on(world: HostedLakeHarness, topic: str, partitions: int, within_s: float = 90) -> None:
    """Each partition of it is stored further than now."""
    for group in world.groups:
        now = heads(world, group, topic, partitions)

        def further(group: str = group, now: list[int] = now) -> bool:
            return all(map(int.__lt__, now, heads(world, group, topic, partitions)))

        wait_until(further, f"{group} goes on with {topic}", within_s)


def meets_trouble(
    world: HostedLakeHarness, kafka: Broker, registry_url: str, *, store_s: float, registry_s: float, kafka_s: float
) -> None:
    """Store and registry are away, the registry for the shorter while; then Kafka is."""
    registered = Registered(world, registry_url)
    topic, traffic = world.topic("events", 2), Traffic(world.kafka)
    with registered.proxy, FaultyStore(world.s3.endpoint) as store:
        deployed = world.declare(endpoint=store.endpoint)
        traffic.begin(topic)
        registered.write()
        application = world.start(deployed)
        for each in (topic, registered.topic):
            world.taken_up(each, 2)
        before_mb = memory_mb(application)

        store.away = True
        registered.away()
        registered.write("later")
        time.sleep(store_s)
        stays_up(application, before_mb)
        assert store.met["away"]
        store.away = False
        goes_on(world, topic, 2)
        waits_for_the_registry(world, application, registered, registry_s)

        kafka.kill()
        time.sleep(kafka_s)
        stays_up(application, before_mb)
        kafka.start()
        goes_on(world, topic, 2)

        traffic.end(topic)
        wait_until(lambda: not world.behind(deployed), "all is stored", 120)
        is_well(world, application, before_mb)
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])
    assert world.is_whole(registered.topic) == 100


def waits_for_the_registry(
    world: HostedLakeHarness, application: Hosted, registered: Registered, seconds: float
) -> None:
    """Records of a schema that nobody knows wait for it; none is set aside for that."""
    place = f"{registered.topic}/0"

    def told() -> bool:
        return "registry" in application.told("by_date")["failing"].get(place, "")

    end_s = time.monotonic() + seconds
    wait_until(told, "it says what it waits for")
    time.sleep(max(0.0, end_s - time.monotonic()))
    assert heads(world, "by_date", registered.topic, 2) == [25, 25]
    assert heads(world, "raw", registered.topic, 2) == [50, 50]
    registered.back()
    wait_until(lambda: heads(world, "by_date", registered.topic, 2) == [50, 50], "it goes on with the registry", 90)


def bears_faults(world: HostedLakeHarness, seed: int, seconds: float) -> None:
    """The store refuses, cuts off and loses answers for so long, under traffic."""
    topic, traffic = world.topic("events", 3), Traffic(world.kafka)
    with FaultyStore(world.s3.endpoint, seed) as store:
        deployed = world.declare(endpoint=store.endpoint)
        traffic.begin(topic)
        application = world.start(deployed)
        world.taken_up(topic, 3)
        before_mb = memory_mb(application)
        store.shares = {"busy": 0.15, "failing": 0.05, "reset": 0.05, "lost": 0.1}
        time.sleep(seconds)
        assert all(store.met[fault] for fault in store.shares), store.met
        traffic.end(topic)
        # Still among faults.
        wait_until(lambda: not world.behind(deployed), "all is stored", 120)
        store.shares = {}
        is_well(world, application, before_mb)
    assert world.is_whole(topic) >= len(traffic.acknowledged[topic])


def is_well(world: HostedLakeHarness, application: Hosted, before_mb: int) -> None:
    """It tells of no trouble, has lost nothing, and ends when it is asked to."""
    stays_up(application, before_mb)
    for group in world.groups:

        def well(group: str = group) -> bool:
            told = application.told(group)
            return (told["failing"], told["away"]) == ({}, "")

        wait_until(well, f"{group} is well")
        assert application.told(group)["lost"] == []
    assert application.stop() == 0, application.log()
