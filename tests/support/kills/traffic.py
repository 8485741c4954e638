"""What is written while processes die: within transactions, a third of which are aborted, and without.

Each record says by itself where it belongs: `run` and `at` (partition) in its content, or in a header.
"""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer

__all__ = ["BASE_MS", "DAYS", "Traffic"]

BASE_MS: Final = 1_700_000_000_000
DAYS: Final = ("2023-11-14", "2023-11-15", "2023-11-16")
_DAY_MS: Final = 86_400_000


class Traffic:
    """Writes from its start until it is stopped; `committed` are the offsets that Kafka has promised, by partition."""

    def __init__(self, bootstrap: str, topic: str, run: int, partitions: int, *, big: bool) -> None:
        self._topic, self._run, self._partitions, self._big = topic, run, partitions, big
        self._chance = random.Random(run)
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 0}
        self._plain: Any = Producer({**settings, "acks": "all"})
        self._bound: Any = Producer({**settings, "transactional.id": f"traffic-{topic}"})
        self._bound.init_transactions()
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flow, name=f"traffic-{topic}")
        self._failure: BaseException | None = None
        self.committed: dict[int, set[int]] = defaultdict(set)

    def __enter__(self) -> Self:
        """Something is there before anybody reads."""
        for _ in range(16 if self._big else 6):
            self._transaction(60 if self._big else 15)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """The last record is in the log; may be called twice."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _flow(self) -> None:
        try:
            while not self._stop.wait(0.2 if self._big else 0.03):
                self._transaction(6)
        except BaseException as error:  # noqa: BLE001 - told by whoever ends it
            self._failure = error

    def _transaction(self, count: int) -> None:
        told: list[tuple[int, int]] = []
        self._bound.begin_transaction()
        for _ in range(count):
            self._write(self._bound, told)
        self._bound.flush()
        if self._chance.random() < 0.3:
            self._bound.abort_transaction()
            told.clear()
        else:
            self._bound.commit_transaction()
        for _ in range(count // 3):
            self._write(self._plain, told)
        self._plain.flush()
        for partition, offset in told:
            self.committed[partition].add(offset)

    def _write(self, producer: Any, told: list[tuple[int, int]]) -> None:
        chance, number, partition = self._chance, self._number, self._chance.randrange(self._partitions)
        self._number += 1
        # Of big ones nearly all are of one day, so that its file needs parts.
        day = chance.randrange(3) if not self._big or chance.random() < 0.03 else 0
        content = {
            "run": self._run,
            "at": partition,
            "n": number,
            "ms": BASE_MS + day * _DAY_MS,
            "type": "ping" if number % 23 == 5 else "order",
            "pad": "x" * (9_000 if self._big else chance.randrange(400)),
        }
        value: bytes | None = json.dumps(content).encode()
        if number % 41 == 7:
            value = None if number % 2 else b"no JSON, n %d" % number

        def hear(error: Any, message: Any) -> None:
            if error is None:
                told.append((message.partition(), message.offset()))

        producer.produce(
            self._topic,
            value,
            b"k%d" % number if number % 5 else None,
            partition,
            hear,
            headers=[("where", b"%d %d" % (self._run, partition)), *([("n", None), ("n", b"")] if number % 7 else [])],
        )
