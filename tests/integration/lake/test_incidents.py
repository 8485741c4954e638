"""What a group meets on a real Kafka and a real S3 server: losses, refusals, delay, damage, keys that are wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from include.clock import Clock, SystemClock
from include.incidents.kind import Incident
from include.lake.definition import LakeGroup
from include.lake.incidents.incidents import LakeIncidents
from include.lake.inspect.status import group_status
from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit
from include.lake.reading.kafka_group import KafkaGroupLog
from include.lake.writing.driver import Driver
from include.lake.writing.report import GroupReport
from include.lake.writing.worker import TaskPlace
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.metrics.progress import RunFolder
from include.settings.connections import Kafka, StoreSettings
from include.store.s3 import store_of
from tests.support.lake.hosted_application import Threads

# Of now: what is much older than its Kafka timestamp is refused.
GOOD, REFUSED = json.dumps({"at": datetime.now(UTC).isoformat()}).encode(), b"no JSON"
FASTER = 20


class Fast(Clock):
    """A minute takes three seconds."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._began_us, self._began_s = self._real.now_us(), self._real.monotonic_s()

    def now_us(self) -> int:
        return self._began_us + round((self._real.monotonic_s() - self._began_s) * FASTER * 1_000_000)

    def monotonic_s(self) -> float:
        return self._began_s + (self._real.monotonic_s() - self._began_s) * FASTER

    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds / FASTER)


class Scenario:
    """A group that is driven step by step: between two of them nothing happens."""

    def __init__(self, unique: str, folder: Path, kafka: str, s3: Any) -> None:
        self.unique, self.folder, self.kafka, self.clock = unique, folder, kafka, Fast()
        self.settings = StoreSettings(
            endpoint=s3.endpoint, bucket=unique, access_key=s3.access_key, secret_key=s3.secret_key
        )
        self.store = store_of(self.settings)
        self.store.ensure_bucket()
        folder.mkdir(exist_ok=True)
        dated = {"format": "json", "time": {"field": ["at"], "unit": "iso8601"}}
        stuck = {"format": "class", "parser": {"name": "tests.support.lake.waiting_parser:WaitingParser"}}
        self.group = LakeGroup.model_validate(
            {
                "kind": "partition",
                "application": "lake",
                "topics": [f"{unique}*"],
                "prefix": "dates",
                "policy": {"max_age_s": 10},
                "rules": [self._rule(f"{unique}-stuck", stuck), self._rule("*", dated)],
            }
        )
        self.pool: Threads | None = None
        self.start(self.settings)

    @staticmethod
    def _rule(topics: str, parser: dict[str, Any]) -> dict[str, Any]:
        version = {"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}
        return {"topics": topics, "format": {"json_lines": {"content": "payload"}}, "versions": [version]}

    def start(self, settings: StoreSettings) -> None:
        self.close()
        self.pool = Threads(TaskPlace.of(self.group, Kafka(bootstrap=self.kafka), None, settings, self.folder))
        self.incidents = LakeIncidents("lake", RunFolder(self.folder, self.clock), self.clock)
        watcher = self.incidents.of("dates", self.group, self.cuts, GroupReport("dates"))
        log, store = KafkaGroupLog(self.kafka), store_of(settings)
        self.driver = Driver("dates", self.group, log, store, self.pool, self.clock, watcher, "test")

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()

    def cuts(self, chain: ChainKey, since: int) -> Iterable[Commit]:
        return Chain(self.store, chain).commits(since, contiguous=False)

    def send(self, name: str, *values: bytes) -> None:
        KafkaAdmin(self.kafka).ensure(TopicSpec(f"{self.unique}-{name}", 1))
        producer: Any = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for value in values:
            producer.produce(f"{self.unique}-{name}", value)
        assert producer.flush(20) == 0

    def drop(self, name: str, before: int) -> None:
        admin: Any = AdminClient({"bootstrap.servers": self.kafka})
        for answer in admin.delete_records([TopicPartition(f"{self.unique}-{name}", 0, before)]).values():
            assert answer.result(20).low_watermark == before

    def commits(self, name: str) -> list[str]:
        prefix = f"dates/_chain/{self.unique}-{name}~"
        return [each.key for each in self.store.list(prefix) if each.key.endswith(".commit")]

    def run(self, what: str, done: Callable[[list[Incident]], object]) -> list[Incident]:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            self.driver.step()
            found = self.incidents.look({"dates": self.driver.planner})
            if done(found):
                return found
            time.sleep(0.01)
        pytest.fail(f"{what}: not within two minutes; incidents {found}")


@pytest.fixture
def scene(unique: str, tmp_path: Path, kafka: str, s3: Any) -> Iterator[Scenario]:
    made = Scenario(unique, tmp_path / "local", kafka, s3)
    yield made
    made.close()
    made.store.close()


def kinds(found: list[Incident]) -> list[str]:
    return sorted(each.kind for each in found)


def test_what_a_group_meets_is_told_once_each_over_a_restart_with_a_bad_key(scene: Scenario) -> None:
    for name, value in (("refused", REFUSED), ("stuck", GOOD), ("lost", GOOD), ("damaged", GOOD)):
        scene.send(name, value)
    scene.run("the chains have begun", lambda _: all(map(scene.commits, ("refused", "lost", "damaged"))))
    scene.send("lost", *[GOOD] * 5)
    scene.drop("lost", 4)
    scene.store.put(scene.commits("damaged")[-1], b"{}")
    scene.send("damaged", GOOD)
    wanted = ["late", "lost", "quarantine", "standing"]
    found = {each.kind: each for each in scene.run("all are told", lambda told: kinds(told) == wanted)}
    unique = scene.unique
    assert f"has lost offsets 1 to 3 of {unique}-lost/0: retention was faster" in found["lost"].text
    assert f"records of {unique}-refused are set aside, 1 since" in found["quarantine"].text
    assert found["quarantine"].fix.startswith(f"lyrebird lake cat dates/{unique}-refused/_quarantine/1_0_0000")
    assert f"is late with {unique}-stuck/0: offsets that wait: 1" in found["late"].text
    assert "the price list does not answer" in found["late"].text
    assert found["standing"].fix == f"lyrebird audit chain {unique}-damaged"

    scene.incidents.save(whole=True)
    scene.start(scene.settings.model_copy(update={"secret_key": SecretStr("of-somebody-else")}))
    wanted = sorted([*wanted, "store"])
    again = {each.kind: each for each in scene.run("the store is told", lambda told: kinds(told) == wanted)}
    assert "wrong credentials" in again["store"].text
    assert "Mend access_key and secret_key" in again["store"].text
    assert {kind: again[kind].id for kind in found} == {kind: each.id for kind, each in found.items()}

    scene.start(scene.settings)
    # The key is mended; what was late is not stored yet, and what is damaged still is.
    found_now = scene.run("the store is well", lambda told: "store" not in kinds(told))
    assert {each.id for each in found_now} == {each.id for each in found.values()}


def test_a_transaction_that_its_producer_left_open_is_told_until_it_ends(scene: Scenario) -> None:
    scene.send("open", GOOD)
    scene.run("the chain has begun", lambda _: scene.commits("open"))
    topic = f"{scene.unique}-open"
    producer: Any = Producer({"bootstrap.servers": scene.kafka, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, GOOD)
    assert producer.flush(20) == 0
    # Committed, and yet shown to nobody.
    scene.send("open", GOOD, GOOD)
    (one,) = scene.run("it is told", lambda told: kinds(told) == ["hanging"])
    assert f"is shown nothing of {topic}/0 from offset 1 on" in one.text
    assert "3 offsets wait behind it" in one.text
    assert one.fix.endswith(f"find-hanging --topic {topic} --partition 0")

    status = group_status("dates", scene.group, scene.store, KafkaGroupLog(scene.kafka), scene.clock.now_us() // 1000)
    (partition,) = status.partitions
    assert (partition.committed, partition.end, partition.lag_records, partition.hidden) == (1, 1, 3, 3)
    assert (partition.state, partition.todo.count(one.fix)) == ("hanging", 1)

    producer.abort_transaction(20)
    scene.run("it is over, and what it hid is stored", lambda told: not told and len(scene.commits("open")) > 1)
