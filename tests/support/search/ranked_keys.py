"""A topic of millions of keys whose order is known by arithmetic, ranked by Spark as a nightly audit does.

python -m tests.support.search.ranked_keys --name NAME --keys 10000000

It runs in a process of its own, so that its memory can be bounded and watched: one JSON object on its last line.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from include.audit.definition import search_audit
from include.audit.search.bisect import bisect
from include.audit.search.bounds import AuditBounds
from include.audit.search.cut import AuditCut
from include.audit.search.expected_spark import expected_by_spark
from include.audit.search.views.key_range import DocIdRange
from include.audit.search.views.range_count import SeenDocument
from include.index.progress.document import IndexProgress
from include.index.server.port import IndexInfo
from include.index.states import feed_of
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.ports import TopicSpec
from include.log.registry.confluent import ConfluentRegistry
from include.log.running.batches_spark import session
from include.record.codec import frame
from include.settings.connections import Cluster, Kafka
from include.settings.deployment import Deployment

__all__ = ["DEPLOYMENT", "PARTITIONS", "fill", "key_of"]

PARTITIONS: Final = 4
DEPLOYMENT: Final = """
cluster: {{name: local, type: test}}
kafka: {{bootstrap: "{kafka}"}}
registry: {{url: "{registry}"}}
elasticsearch: {{url: "http://127.0.0.1:9"}}
indexes:
  {name}:
    application: index_{name}
    topic: {name}
    entity: thing
    key: text
    versions: offset
    partitioner: any
    mapping: mapping.json
audits:
  {name}: {{index: {name}}}
"""
_DELETED_OF: Final = 10
_AGAIN_OF: Final = 20
_STEP: Final = 7_368_787
"""A prime: its multiples visit all numbers below a count that is not one of them, in no order to speak of."""


def key_of(rank: int) -> str:
    """The living key of a rank. Of ten numbers the last one's key is deleted."""
    return _key(rank // (_DELETED_OF - 1) * _DELETED_OF + rank % (_DELETED_OF - 1))


def _key(number: int) -> str:
    """80 bytes that sort as their number; what differs last is looked at late, as in names with a long prefix."""
    return f"warehouse/eu-central/shelf/{'é' * 8}/{number:012d}/{number * _STEP % (1 << 64):021d}"


def fill(kafka: str, registry: str, name: str, keys: int) -> int:
    """Write `keys` living keys, others that are deleted again, and some twice; gives how many records that were."""
    from confluent_kafka import Producer

    numbers = keys // (_DELETED_OF - 1) * _DELETED_OF
    KafkaAdmin(kafka).ensure(TopicSpec(name, PARTITIONS, {"retention.ms": "-1"}))
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    value = frame(ConfluentRegistry(registry).register(f"{name}-value", schema, language="JSON"), b'{"n":1}')
    conf = {"bootstrap.servers": kafka, "compression.type": "lz4", "linger.ms": 50, "acks": "1"}
    producer: Any = Producer(conf | {"queue.buffering.max.messages": 500_000})
    written = 0

    def put(number: int, what: bytes | None) -> None:
        nonlocal written
        key = _key(number).encode()
        while True:
            try:
                producer.produce(name, what, key, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
        if not written % 10_000:
            producer.poll(0)

    for n in range(numbers):
        number = n * _STEP % numbers
        put(number, value)
        if number % _AGAIN_OF == 3:
            put(number, value)
        if number % _DELETED_OF == _DELETED_OF - 1:
            put(number, None)
    assert producer.flush(300) == 0
    return written


class View:
    """An index that holds all keys but those of some ranks, answered by arithmetic."""

    def __init__(self, keys: int, lost: Sequence[int]) -> None:
        self.requests, self.received = 0, 0
        self._keys, self._lost = keys, sorted(lost)

    def counts(self, ranges: Sequence[DocIdRange]) -> list[int]:
        self.requests += -(-len(ranges) // 500)
        spans = [self._ranks(one) for one in ranges]
        return [last - first - self._gone(first, last) for first, last in spans]

    def ids(self, ranges: Sequence[DocIdRange], most: int) -> list[list[str]]:
        self.requests += -(-len(ranges) // 500)
        lost = set(self._lost)
        spans = [self._ranks(one) for one in ranges]
        return [[key_of(rank) for rank in range(*span) if rank not in lost][:most] for span in spans]

    def now(self, doc_ids: Sequence[str]) -> dict[str, SeenDocument]:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def _gone(self, first: int, last: int) -> int:
        return bisect_left(self._lost, last) - bisect_left(self._lost, first)

    def _ranks(self, one: DocIdRange) -> tuple[int, int]:
        every = range(self._keys)
        first = 0 if one.low is None else bisect_left(every, one.low, key=key_of)
        return first, self._keys if one.high is None else bisect_left(every, one.high, key=key_of)


def main() -> None:
    """Fold, rank, walk; prints what it saw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--keys", type=int, required=True)
    arguments = parser.parse_args()
    name, keys = arguments.name, arguments.keys
    deployment = Deployment.load()
    spec = search_audit(deployment, name)
    reader = KafkaReader(deployment.one("kafka", Kafka).bootstrap)
    at = AuditCut(IndexInfo(f"{name}-v1", "", {}, {}), AuditBounds(reader.end_offsets(name)), IndexProgress(name))
    reader.close()
    feed = feed_of(deployment.one("cluster", Cluster), spec.index, name, at.progress)
    told: dict[str, Any] = {}
    begun = time.monotonic()

    def lap(what: str) -> None:
        nonlocal begun
        told[what], begun = round(time.monotonic() - begun, 1), time.monotonic()

    spark = session("rank_keys")
    jvm: Any = spark._jvm
    told["heap_mb"] = jvm.java.lang.Runtime.getRuntime().maxMemory() / 1e6
    lap("start_s")
    expected = expected_by_spark(spark, deployment, spec, feed, at)
    lap("fold_s")
    ranked = expected.keys()
    told["keys"], told["living"], told["unreadable"] = len(ranked), expected.living, expected.unreadable
    lap("rank_s")
    ranks = [*range(0, keys, 1000), keys - 1]
    told["wrong_boundaries"] = sum(key != key_of(r) for r, key in zip(ranks, ranked.at(ranks), strict=True))
    told["boundaries"] = len(ranks)
    lap("boundaries_s")
    bounds = [(0, 2000), (keys // 3, keys // 3 + 2000), (keys - 2000, keys)]
    told["wrong_spans"] = sum(
        list(span) != [key_of(r) for r in range(*pair)] for pair, span in zip(bounds, ranked.spans(bounds), strict=True)
    )
    lap("spans_s")
    lost = random.Random(1).sample(range(keys), 100)
    view = View(keys, lost)
    # A walk asks for no more than this.
    walk = bisect(ranked, view)  # type: ignore[arg-type]
    told |= {"missing_right": walk.missing == [key_of(r) for r in sorted(lost)], "extra": len(walk.extra)}
    told |= {"levels": len(walk.levels), "requests": view.requests, "listed": walk.listed}
    lap("walk_s")
    spark.stop()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
