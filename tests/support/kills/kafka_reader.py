"""What Kafka has of a topic in the end, by Kafka's own client: committed records, told from each other by digests.

Nothing of the product is imported here.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

__all__ = ["Kind", "Layout", "Logged", "Ran", "Record", "digest", "end_of", "read_topic"]

_TIMEOUT_S: Final = 30.0


class Record(NamedTuple):
    """A record that Kafka has: digests of its value, and of all of it. `day` is None for what no parser takes.

    `filtered`: a parser leaves it out.
    """

    value: str
    whole: str
    day: int | None
    filtered: bool


Logged = dict[int, dict[int, Record]]
"""By partition and offset."""


Kind = Literal["backup", "partition"]
Layout = Literal["verbatim", "offset", "message_pack"]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run left behind, for whoever verifies it; `problem` is "" when all processes did what they should.

    `ends`: the last stable offsets; `generations`: how many wrote.
    """

    name: str
    number: int
    kind: Kind
    layout: Layout
    prefix: str
    topic: str
    logged: Logged
    ends: dict[int, int]
    generations: int
    problem: str = ""


def digest(*parts: Any) -> str:
    """Tells any two records apart, null from empty included."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def end_of(bootstrap: str, topic: str, partition: int) -> int:
    """The last stable offset."""
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)[1])
    finally:
        consumer.close()


def read_topic(bootstrap: str, topic: str, partitions: int) -> Logged:
    """All committed records."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"verifier-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    found: Logged = {partition: {} for partition in range(partitions)}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(_TIMEOUT_S)
            assert message is not None, f"Kafka does not tell the end of {topic}"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
                continue
            found[message.partition()][message.offset()] = _record(message)
    finally:
        consumer.close()
    return found


def _record(message: Any) -> Record:
    value: bytes | None = message.value()
    kind, timestamp_ms = message.timestamp()
    headers: Sequence[tuple[str, bytes | None]] = message.headers() or ()
    whole = digest(message.key(), value, [list(each) for each in headers], timestamp_ms, kind)
    try:
        content = json.loads(value or b"")
    except ValueError:
        return Record(digest(value), whole, None, filtered=False)
    return Record(digest(value), whole, content["ms"] // 86_400_000, content["type"] == "ping")
