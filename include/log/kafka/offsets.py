"""`KafkaOffsets`: offsets committed for a consumer group that nobody joins, without waiting for Kafka."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from include.errors import LyrebirdError
from include.log.kafka.errors import ClientOptions, Connection

__all__ = ["KafkaOffsets"]


class KafkaOffsets:
    """One group. Not for use from several threads.

    Kafka refuses commits from outside where members have joined the group.
    """

    def __init__(self, bootstrap: str, group: str, options: ClientOptions | None = None) -> None:
        self._connection, self._group = Connection(bootstrap, options), group
        self._answers: list[LyrebirdError | None] = []
        self._unanswered = 0
        self._consumer = self._connection.consumer(group, self._heard)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Send them, by topic and partition; one answer follows unless it raises."""
        positions = [TopicPartition(topic, partition, at) for (topic, partition), at in sorted(offsets.items())]
        with self._connection.asking("commit offsets", group=self._group):
            self._consumer.commit(offsets=positions, asynchronous=True)
        self._unanswered += 1

    def answers(self) -> list[LyrebirdError | None]:
        """What became of commits since the last call, in order; None: they are committed."""
        self._consumer.poll(0)
        found, self._answers = self._answers, []
        return found

    def close(self) -> None:
        """Give up the connection, and what has no answer yet."""
        if self._unanswered:
            # The client waits for its commits: for most of a minute where Kafka is away, in which a process should end.
            threading.Thread(target=self._consumer.close, name="kafka-offsets", daemon=True).start()
        else:
            self._consumer.close()

    def _heard(self, error: KafkaError | None, positions: Sequence[Any]) -> None:
        self._unanswered -= 1
        refused = next((each for each in positions if each.error is not None), None)
        if error is None and refused is not None:
            error = refused.error
        place = {} if refused is None else {"topic": refused.topic, "partition": refused.partition}
        told = None if error is None else self._connection.error(error, "commit offsets", group=self._group, **place)
        self._answers.append(told)
