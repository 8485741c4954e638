"""Producers at a steady rate, some transactional, and what Kafka says of the records then, by a client of its own."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

__all__ = ["Kept", "Traffic", "committed", "wait_until"]

Headers = tuple[tuple[str, bytes | None], ...]
_EVERY_S = 0.1
# Clients that are cut off say so on each try.
_SILENT = logging.getLogger("tests.traffic")
_SILENT.setLevel(logging.CRITICAL)


class Kept(NamedTuple):
    """What has to come back of a record. `timestamp_ms` None: it has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


def wait_until(true: Callable[[], object], what: str, within_s: float = 60) -> None:
    """Return when `true` is; fail after `within_s`."""
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.25)


def committed(kafka: str, topic: str) -> dict[tuple[int, int], Kept]:
    """All committed records that the topic has now, by partition and offset."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "looks",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        found: dict[tuple[int, int], Kept] = {}
        open_, end_s = set(partitions), time.monotonic() + 60
        while open_:
            assert time.monotonic() < end_s, f"{topic} cannot be read to its end"
            for each in consumer.consume(2000, 0.2):
                if each.error() is None:
                    kind, at = each.timestamp()
                    place = each.partition(), each.offset()
                    headers = tuple(each.headers() or ())
                    found[place] = Kept(each.key(), each.value(), headers, at if kind else None)
                elif each.error().code() == KafkaError._PARTITION_EOF:  # librdkafka's own code
                    open_.discard(each.partition())
                else:
                    raise AssertionError(each.error())
        return found
    finally:
        consumer.close()


class Traffic:
    """Writes to topics until it is told not to. `acknowledged` is by topic what Kafka took, committed alone."""

    def __init__(self, kafka: str, *, a_second: int = 120) -> None:
        self._kafka, self._a_second = kafka, a_second
        self._numbers = itertools.count()
        self._running: dict[str, tuple[threading.Event, list[threading.Thread]]] = {}
        self.acknowledged: dict[str, dict[tuple[int, int], bytes]] = {}
        self.failures: list[str] = []

    def begin(self, topic: str) -> None:
        """Two writers: one record after the other, and transactions of which each fourth is aborted."""
        over = threading.Event()
        self.acknowledged[topic] = {}
        threads = [
            threading.Thread(target=self._guarded, args=(write, topic, over), daemon=True)
            for write in (self._plain, self._transactional)
        ]
        self._running[topic] = over, threads
        for each in threads:
            each.start()

    def end(self, topic: str) -> dict[tuple[int, int], bytes]:
        """Stop writing to it; gives all that Kafka took, with its offsets."""
        over, threads = self._running.pop(topic)
        over.set()
        for each in threads:
            each.join(60)
            assert not each.is_alive()
        assert not self.failures, self.failures[:3]
        return self.acknowledged[topic]

    def end_all(self) -> None:
        for topic in list(self._running):
            self.end(topic)

    def _guarded(self, write: Callable[[str, threading.Event], None], topic: str, over: threading.Event) -> None:
        try:
            write(topic, over)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self.failures.append(f"{topic}: {error!r}")

    def _producer(self, **more: str | int) -> Any:
        return Producer(
            {
                "bootstrap.servers": self._kafka,
                "linger.ms": 5,
                "partitioner": "random",
                "topic.metadata.refresh.interval.ms": 500,
                "message.timeout.ms": 0 if "transactional.id" in more else 1_800_000,
                "enable.idempotence": True,
                "logger": _SILENT,
                **more,
            }
        )

    def _plain(self, topic: str, over: threading.Event) -> None:
        producer = self._producer()
        while not over.wait(_EVERY_S):
            for _ in range(max(1, int(self._a_second * _EVERY_S / 2))):
                self._write(producer, topic, self.acknowledged[topic])
            producer.poll(0)
        assert producer.flush(120) == 0

    def _transactional(self, topic: str, over: threading.Event) -> None:
        names: dict[str, str | int] = {
            "transactional.id": f"{topic}-{time.monotonic_ns()}",
            "transaction.timeout.ms": 900_000,
        }
        producer = self._producer(**names)
        _insist(lambda: producer.init_transactions(10))
        for number in itertools.count():
            if over.wait(_EVERY_S):
                return
            taken: dict[tuple[int, int], bytes] = {}
            producer.begin_transaction()
            for _ in range(max(1, int(self._a_second * _EVERY_S / 2))):
                self._write(producer, topic, taken)
            while producer.flush(10):
                """Kafka may be away."""
            if number % 4 == 3:
                _insist(lambda: producer.abort_transaction(10))
            else:
                _insist(lambda: producer.commit_transaction(10))
                self.acknowledged[topic].update(taken)

    def _write(self, producer: Any, topic: str, taken: dict[tuple[int, int], bytes]) -> None:
        number = next(self._numbers)
        value = json.dumps({"n": number, "at": 1_700_000_000 + number * 60, "pad": "x" * (number % 97)}).encode()
        headers: Headers = (("n", b"%d" % number), ("n", None), ("", b""))[: number % 4]

        def heard(error: Any, message: Any) -> None:
            if error is not None:
                self.failures.append(f"{topic}: {error}")
            else:
                taken[message.partition(), message.offset()] = value

        key = b"k%d" % number if number % 7 else None
        producer.produce(topic, value, key, headers=list(headers), on_delivery=heard)


def _insist(call: Callable[[], object]) -> None:
    """Until it is answered."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
