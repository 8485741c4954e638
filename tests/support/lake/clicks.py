"""Clicks from Tokyo, whose parser took their local times for UTC, and what has to become of each of them.

What is expected is made of what was sent, by plain Python: nothing of `include.lake` decides on it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from confluent_kafka import TopicPartition

from include.log.kafka.errors import Connection
from include.log.kafka.log import KafkaReader
from include.settings.connections import Kafka
from include.store.object_store import ObjectInfo, ObjectStore
from tests.support.background import Background

__all__ = [
    "DAY_MS",
    "FIXED",
    "PARTITIONS",
    "SEQUENCE",
    "WRONG",
    "Cut",
    "Traffic",
    "backup",
    "cuts_of",
    "day",
    "drop_from_kafka",
    "ends_of",
    "expected",
    "fixed_since",
    "lyrebird",
    "objects_of",
    "partitioned",
    "right_day",
    "write_groups",
    "wrong_day",
]

PARTITIONS = 3
DAY_MS = 86_400_000

Place = tuple[int, int]
"""Kafka partition, offset."""

Cut = tuple[int, int, int]
"""Kafka partition, first, next."""

_TOKYO = ZoneInfo("Asia/Tokyo")
_NEXT: Final[dict[tuple[str, str], int]] = {}
_COMMIT = re.compile(r".*/([0-9]+)/([0-9]{20})\.commit")
_REFUSED_EVERY = 40
_ABORTED_EVERY = 5

WRONG: dict[str, Any] = {
    "version": 1,
    "added": "2026-01-01T00:00:00Z",
    "parser": {"format": "json", "time": {"field": ["at"], "unit": "iso8601"}},
}
"""The bug: a text without an offset is UTC unless `zone` says whose time it is."""

FIXED: dict[str, Any] = {
    **WRONG,
    "parser": {"format": "json", "time": {"field": ["at"], "unit": "iso8601", "zone": "Asia/Tokyo"}},
}
"""What it should have been from the first day."""

SEQUENCE: dict[str, Any] = {"sequence": {"layout": "message_pack", "compression": "BLOCK"}}


def fixed_since(now: dt.datetime) -> dict[str, Any]:
    """The second version, declared now and for what comes from now on."""
    return {**FIXED, "version": 2, "added": now.isoformat(), "from_time": now.isoformat()}


def backup(topic: str, prefix: str, **more: Any) -> dict[str, Any]:
    """The raw copy."""
    form = {"sequence": {"layout": "verbatim", "compression": "BLOCK", "level": 1}}
    rules = [{"topics": "*", "format": form}]
    return {"kind": "backup", "offset_step": 1000, "rules": rules, **_group(topic, prefix), **more}


def partitioned(topic: str, prefix: str, *versions: Any, form: Any = None, **more: Any) -> dict[str, Any]:
    """Clicks by day; the default format is their own lines."""
    rules = [{"topics": "*", "format": form or {"json_lines": {"content": "payload"}}, "versions": list(versions)}]
    return {"kind": "partition", "finalise": {"lateness_s": 0}, "rules": rules, **_group(topic, prefix), **more}


def _group(topic: str, prefix: str) -> dict[str, Any]:
    policy = {"max_age_s": 2, "max_records": 300}
    return {"application": "clicks", "topics": [topic], "prefix": prefix, "policy": policy}


def write_groups(folder: Path, groups: Mapping[str, Any]) -> None:
    """Declare groups in a file of their own, at once: others read the folder."""
    made = folder / "clicks.new"
    made.write_text(json.dumps({"lake": groups}, indent=1))
    made.replace(folder / "clicks.yaml")


class Traffic(Background):
    """The topic's only producer. As a context it sends clicks of now in the background.

    Sends transactions; each fifth is aborted. Each fortieth message is no JSON. No value comes twice.
    """

    def __init__(self, kafka: Kafka, topic: str) -> None:
        super().__init__()
        self._kafka, self._topic = kafka, topic
        self._producer: Any = Connection(kafka.bootstrap, kafka.options).producer(transactional_id=f"{topic}-traffic")
        self._producer.init_transactions(60)
        self._kept: dict[Place, bytes] = {}
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._number = self._transactions = 0

    def sent(self) -> dict[Place, bytes]:
        """What the topic has for its readers so far, also what was dropped since the last call."""
        reader = KafkaReader(self._kafka.bootstrap, self._kafka.options)
        # Up to the end of now: a reader that waits for an end never meets it where traffic is regular.
        for partition, end in reader.end_offsets(self._topic).items():
            for record in reader.read(self._topic, partition, self._next[partition], end):
                assert record.value is not None
                self._kept[partition, record.offset] = record.value
            self._next[partition] = end
        reader.close()
        return dict(self._kept)

    def send(self, times_ms: Iterable[int]) -> None:
        """A transaction of clicks that happened then."""
        times = list(times_ms)
        self._transactions += 1
        if self._transactions % _ABORTED_EVERY == 0:
            self._transact(times)
            self._producer.abort_transaction(60)
        self._transact(times)
        self._producer.commit_transaction(60)

    def _value(self, at_ms: int) -> bytes:
        self._number += 1
        if self._number % _REFUSED_EVERY == 0:
            return b"no JSON: %d" % self._number
        local = dt.datetime.fromtimestamp(at_ms / 1000, _TOKYO).replace(tzinfo=None)
        click = {"n": self._number, "at": local.isoformat(timespec="milliseconds"), "page": f"/p/{self._number % 97}"}
        return json.dumps(click).encode()

    def _transact(self, times_ms: Sequence[int]) -> None:
        self._producer.begin_transaction()
        for place, at_ms in enumerate(times_ms):
            self._producer.produce(self._topic, self._value(at_ms), partition=place % PARTITIONS, timestamp=at_ms)
        self._producer.flush(60)

    def work(self) -> None:
        while not self.over.wait(0.2):
            now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
            self.send(now_ms + place for place in range(10))


def ends_of(sent: Mapping[Place, bytes]) -> dict[int, int]:
    """Behind the last record of each partition."""
    return {p: max(offset for at, offset in sent if at == p) + 1 for p in range(PARTITIONS)}


def day(at_ms: int) -> str:
    """In UTC."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).date().isoformat()


def _local(value: bytes) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(json.loads(value)["at"])
    except ValueError:
        return None


def wrong_day(value: bytes) -> str | None:
    """Where the parser with the bug put it; None: nowhere, it is refused."""
    local = _local(value)
    return None if local is None else local.date().isoformat()


def right_day(value: bytes) -> str | None:
    """The day in UTC on which it happened."""
    local = _local(value)
    return None if local is None else local.replace(tzinfo=_TOKYO).astimezone(dt.UTC).date().isoformat()


def expected(
    sent: Mapping[Place, bytes],
    cuts: Iterable[Cut],
    folder: str,
    generation: int,
    day_of: Callable[[bytes], str | None] = right_day,
) -> dict[str, str]:
    """Keys and SHA-256 of all objects of lines that a parser makes of these cuts."""
    bodies: defaultdict[str, bytes] = defaultdict(bytes)
    for partition, first, until in cuts:
        for offset in range(first, until):
            value = sent.get((partition, offset))
            date = None if value is None else day_of(value)
            if value is not None and date is not None:
                bodies[f"{folder}/dt={date}/{generation}_{partition}_{first:020d}.jsonl"] += value + b"\n"
    return {key: hashlib.sha256(body).hexdigest() for key, body in bodies.items()}


def objects_of(store: ObjectStore, folder: str, generation: int) -> dict[str, str]:
    """Keys and SHA-256 of all dated objects of a generation that lie in the bucket, as a plain listing has them."""
    found = {}
    for info in store.list(f"{folder}/dt="):
        if info.key.rpartition("/")[2].startswith(f"{generation}_"):
            stored = store.get(info.key)
            assert stored is not None
            found[info.key] = hashlib.sha256(stored.body).hexdigest()
    return found


def cuts_of(store: ObjectStore, prefix: str, topic: str, generation: int) -> set[Cut]:
    """The cuts that are committed in a generation of a topic that was made once."""
    found = set()
    for info in store.list(f"{prefix}/_chain/{topic}~"):
        name = _COMMIT.fullmatch(info.key)
        if name and f"/{generation}/{name[1]}/" in info.key:
            found.add((int(name[1]), int(name[2]), _next(store, info)))
    return found


def _next(store: ObjectStore, info: ObjectInfo) -> int:
    """Where a cut ends. What a test has read is not read again: there are more and more while it waits for them."""
    if (info.key, info.etag) not in _NEXT:
        stored = store.get(info.key)
        assert stored is not None
        _NEXT[info.key, info.etag] = int(json.loads(stored.body)["next"])
    return _NEXT[info.key, info.etag]


def drop_from_kafka(kafka: Kafka, topic: str, before: Mapping[int, int]) -> None:
    """Let the topic begin at these offsets."""
    admin: Any = Connection(kafka.bootstrap, kafka.options).admin()
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for asked, answer in admin.delete_records(wanted).items():
        assert answer.result(30).low_watermark == before[asked.partition]


def lyrebird(*arguments: str) -> dict[str, Any]:
    """What `lyrebird lake …` says as JSON."""
    ended = subprocess.run(
        [sys.executable, "-m", "include", "lake", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return dict(json.loads(ended.stdout))
