"""Where benches of the lake take place: a Kafka with records of 1 KB, an S3 server, and cores that are not theirs."""

from __future__ import annotations

import gc
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.ports import TopicInfo, TopicSpec
from tests.bench.servers import halves, served

__all__ = ["RECORD_BYTES", "LakePlace", "lake_placed", "parsed_by"]

RECORD_BYTES: Final = 1024
_BUCKET: Final = "lake"
_TEMPLATES: Final = 4000
_WORDS: Final = 400


@dataclass(frozen=True)
class LakePlace:
    """`kafka` and `store` are sections of a deployment file; `cores` are not those of the servers, where it can be."""

    kafka: dict[str, str]
    store: dict[str, str]
    folder: Path
    server_cores: frozenset[int]
    cores: frozenset[int]

    @property
    def shared(self) -> bool:
        """Whether servers and lake have the same cores."""
        return bool(self.server_cores & self.cores)

    def fill(self, topic: str, records: int, *, partitions: int = 1, tenants: int = 1) -> TopicInfo:
        """Make `topic` with so many records of 1 KB of JSON: `at` (now, ms), `tenant` (of so many), and more."""
        admin, bootstrap = KafkaAdmin(self.kafka["bootstrap"]), self.kafka["bootstrap"]
        admin.ensure(TopicSpec(topic, partitions))
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 20,
                "batch.size": 1 << 20,
                "queue.buffering.max.kbytes": 65536,
            }
        )
        for number, tail in zip(range(records), cycle(_tails()), strict=False):
            body = b'{"at":%013d,"tenant":"%06d",%s' % (time.time() * 1000, number * 7919 % tenants, tail)
            while True:
                try:
                    producer.produce(topic, body, b"%08d" % (number % 10_000), partition=number % partitions)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
            if not number % 1000:
                producer.poll(0)
        if producer.flush(120):
            raise SystemExit("Kafka did not take the records")
        reader = KafkaReader(bootstrap)
        there = sum(reader.end_offsets(topic).values())
        reader.close()
        info = admin.describe(topic)
        del reader, producer, admin
        # Clients that nobody holds go only now, before their server does and not with complaints after it.
        gc.collect()
        if info is None or there != records:
            raise SystemExit(f"{topic} has {there} of {records} records")
        return info


def _tails() -> list[bytes]:
    """What follows in a record, the same each time: texts, numbers and identities as events have them."""
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlucm", k=draw.randrange(2, 10))) for _ in range(_WORDS)]
    tails = []
    for number in range(_TEMPLATES):
        event: dict[str, Any] = {
            "id": f"{draw.getrandbits(128):032x}",
            "type": draw.choice(["view", "click", "order", "payment"]),
            "user": draw.randrange(10**7),
            "session": f"{draw.getrandbits(64):016x}",
            "url": f"/products/{draw.randrange(10**5)}/reviews?page={draw.randrange(90)}",
            "price": draw.randrange(10**6) / 100,
            "agent": f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/{draw.randrange(80, 130)}.0",
            "items": [{"sku": draw.randrange(10**8), "count": draw.randrange(1, 9)} for _ in range(6)],
            "trace": f"{draw.getrandbits(512):0128x}",
            "text": " ".join(draw.choices(words, k=130)),
        }
        tail = json.dumps(event, separators=(",", ":"))[1:].encode()
        room = RECORD_BYTES - len(b'{"at":%013d,"tenant":"%06d",' % (0, 0))
        # The text is the last member, and longer than is needed.
        tails.append(tail[: room - 2] + b'"}')
        if len(tails[-1]) != room:
            raise SystemExit(f"template {number} is too short")
    return tails


def parsed_by(form: dict[str, Any], *names: dict[str, Any]) -> dict[str, Any]:
    """A rule for such records: by their `at`, or by the names given."""
    parser = {"format": "json", "time": {"field": ["at"], "unit": "ms"}, **({"names": list(names)} if names else {})}
    return {
        "topics": "*",
        "format": form,
        "versions": [{"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}],
    }


@contextmanager
def lake_placed(*, apart: bool) -> Iterator[LakePlace]:
    """Both servers, and a folder. `apart`: they share no core with what runs on `cores`."""
    servers, cores = halves(apart)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        with served(["kafka", "s3"], base / "stack", servers) as env:
            store = {
                "endpoint": env["LYREBIRD_S3"],
                "bucket": _BUCKET,
                "access_key": env["LYREBIRD_S3_ACCESS_KEY"],
                "secret_key": env["LYREBIRD_S3_SECRET_KEY"],
            }
            yield LakePlace({"bootstrap": env["LYREBIRD_KAFKA"]}, store, base, servers, cores)
