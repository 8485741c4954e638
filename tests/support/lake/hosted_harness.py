"""A bucket and topics of a test's own, groups hosted in processes, and what can be said of all that they stored."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from include.audit.chain.audit import audit_chain
from include.clock import SystemClock
from include.lake.definition import declared_groups
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.inspect.listing import Dates, list_topic
from include.lake.inspect.status import group_status
from include.lake.protocol.chain_key import TopicKey
from include.lake.reading.kafka_group import KafkaGroupLog
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.settings.deployment import Deployment
from include.store.s3 import S3Store
from tests.support.lake.hosted_application import Hosted
from tests.support.lake.traffic import Kept, committed, wait_until

__all__ = ["EVER", "HostedLakeHarness", "opened", "read", "same"]

EVER = Dates(dt.date(1971, 1, 1), dt.date(2100, 1, 1))
_DATA = re.compile(r"(?:.*/)?([0-9]+)_([0-9]+)_([0-9]{20})(?:\.[a-z]+)?")
_DEPLOYED: dict[str, dict[str, Any]] = {
    "raw": {
        "kind": "backup",
        "offset_step": 1000,
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim", "compression": "BLOCK"}}}],
    },
    "by_date": {
        "kind": "partition",
        "rules": [
            {
                "topics": "*",
                "format": {"json_lines": {"content": "message"}},
                "versions": [
                    {
                        "version": 1,
                        "added": "2026-01-01T00:00:00Z",
                        "parser": {
                            "format": "json",
                            "time": {"field": ["at"], "unit": "s", "behind_s": None, "ahead_s": None},
                        },
                    }
                ],
            }
        ],
    },
}


class HostedLakeHarness:
    """Groups `raw` and `by_date` over all topics whose names begin with `unique`."""

    def __init__(self, unique: str, folder: Path, kafka: str, s3: Any) -> None:
        self.unique, self.folder, self.kafka, self.s3 = unique, folder, kafka, s3
        self.store = S3Store(s3.endpoint, unique, s3.access_key, s3.secret_key)
        self.store.ensure_bucket()
        self.admin = KafkaAdmin(kafka)
        self.running: list[Hosted] = []
        self.policy: dict[str, Any] = {"max_bytes": 60_000, "max_age_s": 2, "record_bytes": 100}
        self.groups: dict[str, dict[str, Any]] = deepcopy(_DEPLOYED)
        self.registry: dict[str, str] = {}

    def declare(self, revision: int = 1, *, endpoint: str = "") -> Path:
        """Write a deployment; gives its folder."""
        folder = self.folder / f"deployed-{revision}"
        folder.mkdir(exist_ok=True)
        common = {
            "topics": [f"{self.unique}.*"],
            "revision": revision,
            "policy": self.policy,
        }
        deployed = {
            "kafka": {"bootstrap": self.kafka},
            "store": {
                "endpoint": endpoint or self.s3.endpoint,
                "bucket": self.unique,
                "access_key": self.s3.access_key,
                "secret_key": self.s3.secret_key,
            },
            **({"registry": self.registry} if self.registry else {}),
            "lake": {
                name: {**common, "prefix": name, "application": f"lake_{group['kind']}", **group}
                for name, group in self.groups.items()
            },
        }
        (folder / "d.yaml").write_text(json.dumps(deployed))
        return folder

    def start(self, deployed: Path, *words: str) -> Hosted:
        """All groups of a deployment, in a process without Spark."""
        return self._started("-m", "tests.support.lake.hosted_application", str(deployed), *words)

    def submit(self, deployed: Path, kind: str) -> Hosted:
        """The groups of a kind as the product runs them."""
        words = f"spark_apps/lake_{kind}.py", "--application", f"lake_{kind}"
        return self._started(*words, LYREBIRD_DEPLOYMENT=str(deployed))

    def _started(self, *words: str, **environment: str) -> Hosted:
        found = Hosted(words, self.folder / "run" / str(len(self.running)), environment)
        self.running.append(found)
        return found

    def drain(self, deployed: Path) -> Hosted:
        """A run that stores all there is, and has ended."""
        found = self.start(deployed, "--flush")
        assert found.process.wait(90) == 0, found.log()
        return found

    def topic(self, name: str, partitions: int, **config: str) -> str:
        self.admin.ensure(TopicSpec(f"{self.unique}.{name}", partitions, config))
        return f"{self.unique}.{name}"

    def grow(self, topic: str, partitions: int) -> None:
        client = AdminClient({"bootstrap.servers": self.kafka})
        client.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def drop(self, topic: str, partition: int, before: int) -> None:
        """Retention takes all records before an offset."""
        client = AdminClient({"bootstrap.servers": self.kafka})
        place = TopicPartition(topic, partition, before)
        next(iter(client.delete_records([place]).values())).result(30)

    def topic_id(self, topic: str) -> str:
        info = self.admin.describe(topic)
        assert info is not None
        return info.named_id

    def begun(self, group: str, topic: str, generation: int = 1) -> set[int]:
        """Kafka partitions of a topic's life now of which a cut is committed."""
        folder = f"{group}/_chain/{topic}~{self.topic_id(topic)}/{generation}/"
        keys = [each.key.removeprefix(folder).split("/") for each in self.store.list(folder)]
        return {int(key[0]) for key in keys if key[0].isdecimal() and key[-1].endswith(".commit")}

    def taken_up(self, topic: str, partitions: int, generation: int = 1) -> None:
        """Within a minute all partitions of a topic are stored by each group."""
        for group in self.groups:
            wait_until(
                lambda group=group: self.begun(group, topic, generation) == set(range(partitions)),  # type: ignore[misc]
                f"{group} takes {partitions} partitions of {topic} up",
            )

    def behind(self, deployed: Path) -> int:
        """Offsets that no group has stored yet, as `lyrebird lake status` counts them; raises for what is not well."""
        log, now_ms, waits = KafkaGroupLog(self.kafka), SystemClock().now_us() // 1000, 0
        for name, group in declared_groups(Deployment.load(deployed, {})).items():
            found = group_status(name, group, self.store, log, now_ms)
            assert not found.troubles, found.troubles
            waits += sum(each.lag_records or 0 for each in found.partitions)
        return waits

    def objects(self, group: str, topic: str) -> dict[str, tuple[int, int, int]]:
        """All data objects of a topic by listing alone: generation, partition, first."""
        found = {}
        for each in self.store.list(f"{group}/{topic}/"):
            name = _DATA.fullmatch(each.key)
            assert name is not None, each.key
            found[each.key] = int(name[1]), int(name[2]), int(name[3])
        return found

    def read_by_readers(self, group: str, topic: str) -> set[str]:
        """Keys of the objects that readers read."""
        found = list_topic(self.store, group, topic, EVER)
        return {each.key for each in found}

    def records(self, group: str, keys: Mapping[str, tuple[int, int, int]]) -> dict[tuple[int, int], Kept]:
        """What these objects hold, by partition and offset; none is in two of them."""
        found: dict[tuple[int, int], Kept] = {}
        counts: Counter[tuple[int, int]] = Counter()
        for key, (_, partition, first) in keys.items():
            body = self.store.get(key)
            assert body is not None, key
            for offset, kept in read(group, body.body):
                assert offset >= first, key
                found[partition, offset] = kept
                counts[partition, offset] += 1
        twice = [place for place, count in counts.items() if count > 1]
        assert not twice, f"{group}: {len(twice)} records are stored twice, such as {min(twice)}"
        return found

    def is_whole(self, topic: str) -> int:
        """Each committed record is in one object that readers read, as it was, in each group; gives how many there are.

        Where there is one generation, in one object of all that there are. The audit finds nothing.
        """
        expected = committed(self.kafka, topic)
        for group in self.groups:
            there, read = self.objects(group, topic), self.read_by_readers(group, topic)
            generations = {generation for generation, _, _ in there.values()}
            stored = self.records(group, {key: each for key, each in there.items() if key in read})
            same(stored, expected, group)
            if len(generations) == 1:
                assert self.records(group, there) == stored
        declared = declared_groups(Deployment.load(self.declare(), {}))
        report = audit_chain(self.store, declared, topic, SystemClock().now_us())
        assert report.findings == ()
        return len(expected)

    def committed(self, topic: str) -> dict[tuple[int, int], Kept]:
        return committed(self.kafka, topic)

    def pointer(self, group: str, topic: str) -> TopicKey:
        return TopicKey(group, topic, self.topic_id(topic))

    def close(self) -> None:
        for each in self.running:
            each.kill()
        self.store.close()
        for name in self.admin.names():
            if name.startswith(self.unique):
                self.admin.delete(name)


def same(stored: Mapping[tuple[int, int], Kept], expected: Mapping[tuple[int, int], Kept], group: str) -> None:
    """Each record once, as it was."""
    missing, extra = sorted(expected.keys() - stored.keys()), sorted(stored.keys() - expected.keys())
    assert not missing, f"{group} lacks {len(missing)} of {len(expected)} records, such as {missing[:3]}"
    assert not extra, f"{group} has {len(extra)} records that Kafka has not, such as {extra[:3]}"
    changed = [place for place, kept in expected.items() if stored[place] != kept]
    assert not changed, f"{group}: {stored[changed[0]]} was {expected[changed[0]]}"


def read(group: str, body: bytes) -> Iterator[tuple[int, Kept]]:
    """The records of an object."""
    if group != "by_date":
        for each in SequenceFile(layout="verbatim").read(io.BytesIO(body)):
            at = each.timestamp_ms if each.timestamp_type else None
            yield each.offset, Kept(each.key, each.value, each.headers, at)
        return
    for line in body.splitlines():
        record = json.loads(line)
        headers = tuple((name, _bytes(value)) for name, value in record["headers"])
        kept = Kept(_bytes(record["key"]), _bytes(record["value"]), headers, record["timestamp_ms"])
        yield record["offset"], kept


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else str(value).encode()


@contextmanager
def opened(unique: str, folder: Path, kafka: str, s3: Any) -> Iterator[HostedLakeHarness]:
    """A world whose processes and topics end with it."""
    world = HostedLakeHarness(unique, folder, kafka, s3)
    try:
        yield world
    finally:
        world.close()
