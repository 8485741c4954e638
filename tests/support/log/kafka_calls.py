"""Every call to Kafka that the product makes, in a loop.

    python -m tests.support.log.kafka_calls BOOTSTRAP TOPIC GROUP

Run beside a broker that is killed. Errors that the product knows are counted; anything else ends the process. Prints a
line of JSON, `{call: {"answered": n, "refused": n}}`, about once a second, and ends when its input does.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.offsets import KafkaOffsets
from include.log.planning.survey import KafkaSurvey
from include.log.ports import TopicSpec

__all__ = ["main"]


def main(bootstrap: str, topic: str, group: str) -> int:
    """Until standard input ends; the exit code."""
    clock, ended = SystemClock(), threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    answered: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    told_s = clock.monotonic_s()
    for name, call in _calls(bootstrap, topic, group):
        try:
            call()
        except LyrebirdError:
            refused[name] += 1
        else:
            answered[name] += 1
        if ended.is_set():
            break
        if clock.monotonic_s() - told_s > 1:
            told_s = clock.monotonic_s()
            print(json.dumps({each: {"answered": answered[each], "refused": refused[each]} for each in answered}))
            sys.stdout.flush()
    return 0


class _Clients:
    """All that the product has; made and closed by turns, as applications start and end."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.reader, self.admin = KafkaReader(bootstrap, timeout_s=3), KafkaAdmin(bootstrap, timeout_s=3)
        self.survey, self.offsets = KafkaSurvey(bootstrap), KafkaOffsets(bootstrap, f"{group}-outside")

    def calls(self) -> dict[str, Callable[[], object]]:
        """By name; what the product asks a group for is apart, in `committed`."""
        return {
            "describe": lambda: self.admin.describe(self.topic),
            "settings": lambda: self.admin.compacts(self.topic),
            "ensure": lambda: self.admin.ensure(TopicSpec(self.topic, 1)),
            "names": self.admin.names,
            "ends": lambda: self.reader.end_offsets(self.topic),
            "begins": lambda: self.reader.begin_offsets(self.topic),
            "unended": lambda: self.reader.unended([self.topic]),
            "read": lambda: list(self.reader.read(self.topic, 0, 0, 1)),
            "survey": lambda: self.survey.offsets([(self.topic, 0)], "end"),
            "commit": self.commit,
        }

    def committed(self) -> object:
        """The call that is in question."""
        return self.reader.committed(self.group, self.topic)

    def commit(self) -> None:
        """From outside of any transaction."""
        self.offsets.commit({(self.topic, 0): 1})
        self.offsets.answers()

    def produce(self) -> None:
        """A transaction with input offsets."""
        writer = KafkaWriter(self.bootstrap, f"{self.group}-writer", timeout_s=3)
        try:
            writer.begin()
            writer.append(self.topic, b"k", b"v")
            writer.commit(self.group, {(self.topic, 0): 1})
        finally:
            writer.close()

    def close(self) -> None:
        """Give up all connections."""
        self.reader.close()
        self.offsets.close()


def _calls(bootstrap: str, topic: str, group: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """For ever."""
    while True:
        clients = _Clients(bootstrap, topic, group)
        for _ in range(20):
            for each in clients.calls().items():
                yield each
                yield "committed", clients.committed
        yield "produce", clients.produce
        clients.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
