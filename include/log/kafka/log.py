"""The log in Kafka: `KafkaReader`, `KafkaWriter`, `KafkaAdmin` implement the ports over confluent-kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition, admin
from typing_extensions import override

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log.kafka.admin import KafkaAdmin
from include.log.kafka.errors import AT_END, LEADERLESS, NOT_HELD, ClientOptions, KafkaClient
from include.log.kafka.writer import KafkaWriter
from include.log.ports import LogReader, Record

__all__ = ["KafkaAdmin", "KafkaReader", "KafkaWriter", "record_of"]

_POLL_S: Final = 0.1
_BATCH: Final = 1000
_COMMITTED: Final = IsolationLevel.READ_COMMITTED
_ALL: Final = IsolationLevel.READ_UNCOMMITTED
_EARLIEST: Final[Any] = admin.OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[Any] = admin.OffsetSpec.latest()  # type: ignore[no-untyped-call]
# librdkafka does not count them among the retriable errors of a single partition, or of a group.
_PASSING: Final = {
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class KafkaReader(KafkaClient, LogReader):
    """`LogReader`: assigned partitions, committed records, no group.

    Several `read` iterators may be open at a time; each has a consumer of its own, kept for the next read.
    Not for use from several threads.
    """

    def __init__(
        self,
        bootstrap: str,
        options: ClientOptions | None = None,
        *,
        timeout_s: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(bootstrap, options, timeout_s=timeout_s, clock=clock)
        self._idle: list[Any] = []

    @override
    def begin_offsets(self, topic: str) -> dict[int, int]:
        return self._of_topic(topic, _EARLIEST, "read begin offsets")

    @override
    def end_offsets(self, topic: str) -> dict[int, int]:
        return self._of_topic(topic, _LATEST, "read end offsets")

    @override
    def unended(self, topics: Collection[str]) -> dict[tuple[str, int], int]:
        asked = [TopicPartition(topic, p) for topic, found in self._topics(topics).items() for p in found]
        if not asked:
            return {}
        # What is written in between lies after both then.
        written = self._offsets(asked, _LATEST, "read end offsets", isolation=_ALL)
        stable = self._offsets(asked, _LATEST, "read end offsets")
        return {place: offset for place, offset in stable.items() if offset < written[place]}

    @override
    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """`Terminal` when `start` is not held any more; `Transient` after `timeout_s` without news."""
        if start >= end:
            return
        consumer = self._idle.pop() if self._idle else self._new_consumer()
        whole = False
        try:
            with self._connection.asking("read", topic=topic, partition=partition, offset=start):
                consumer.assign([TopicPartition(topic, partition, start)])
            yield from self._records(consumer, topic, partition, start, end)
            whole = True
        finally:
            # A consumer that failed or was left half-way is not trusted with the next range.
            if whole:
                consumer.unassign()
                self._idle.append(consumer)
            else:
                consumer.close()

    @override
    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Waits for a transaction that is being committed, and a broker that loads the group.

        Why a consumer: the admin client's call for a group's offsets ends the process when the group's coordinator
        moves or loads (docs/adr/0001-offsets-of-a-group.md).
        """
        asked = [TopicPartition(topic, partition) for partition in self._partitions(topic)]
        until_s = self._clock.monotonic_s() + self._timeout_s
        # With the isolation level of ours, offsets of a transaction under way are waited for.
        consumer = self._connection.consumer(group)
        try:
            while True:
                found, refused = self._asked_offsets(consumer, asked)
                if refused is None:
                    return {each.partition: each.offset for each in found if each.offset >= 0}
                waits = refused.retriable() or refused.code() in _PASSING
                if not waits or self._clock.monotonic_s() > until_s:
                    raise self._connection.error(refused, "read committed offsets", group=group, topic=topic)
                self._clock.sleep(0.02)
        finally:
            consumer.close()

    @override
    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._admin = None

    def _new_consumer(self) -> Any:
        # Short fetch waits: a new assignment waits for the running fetch.
        return self._connection.range_consumer("lyrebird-reader", fetch_wait_max_ms=20)

    def _asked_offsets(self, consumer: Any, asked: list[Any]) -> tuple[list[Any], KafkaError | None]:
        """A group's committed offsets, and what stands against them."""
        try:
            found = consumer.committed(asked, timeout=self._timeout_s)
        except KafkaException as failed:
            return [], failed.args[0]
        return found, next((each.error for each in found if each.error is not None), None)

    def _partitions(self, topic: str) -> list[int]:
        with self._connection.asking("look up a topic", topic=topic):
            found = self._client.list_topics(topic, timeout=self._timeout_s).topics[topic]
        if found.error is not None:
            raise self._connection.error(found.error, "look up a topic", topic=topic)
        return sorted(found.partitions)

    def _topics(self, names: Collection[str]) -> dict[str, list[int]]:
        """Those of `names` that exist, with their partitions; one look at all."""
        with self._connection.asking("list topics"):
            found = self._client.list_topics(timeout=self._timeout_s).topics
        return {name: sorted(found[name].partitions) for name in names if name in found}

    def _of_topic(self, topic: str, spec: Any, what: str) -> dict[int, int]:
        found = self._offsets([TopicPartition(topic, p) for p in self._partitions(topic)], spec, what, topic=topic)
        return {partition: offset for (_topic, partition), offset in found.items()}

    def _offsets(
        self, places: Sequence[Any], spec: Any, what: str, *, isolation: Any = _COMMITTED, **details: Any
    ) -> dict[tuple[str, int], int]:
        asked = dict.fromkeys(places, spec)
        until_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                with self._connection.asking(what, **details):
                    # Only with READ_COMMITTED is "latest" the last stable offset.
                    futures = self._client.list_offsets(
                        asked, isolation_level=isolation, request_timeout=self._timeout_s
                    )
                    found = {at: future.result(self._timeout_s + 1).offset for at, future in futures.items()}
                # While a broker comes back the client may answer with -1001, without an error.
                if all(offset >= 0 for offset in found.values()):
                    return {(at.topic, at.partition): offset for at, offset in found.items()}
                if self._clock.monotonic_s() > until_s:
                    raise self._connection.unreachable(what, **details)
            except Transient as error:
                cause = error.__cause__
                moves = isinstance(cause, KafkaException) and cause.args[0].code() in LEADERLESS
                if not moves or self._clock.monotonic_s() > until_s:
                    raise
            self._clock.sleep(0.05)

    def _records(self, consumer: Any, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        """Ends at the first sign of `end`: a record at it or beyond, or the partition's end at it or beyond."""
        heard_s = self._clock.monotonic_s()
        seen = start
        while True:
            with self._connection.asking("read", topic=topic, partition=partition, offset=seen):
                # `consume` waits until its batch is full, so the wait is for one record and the rest is what is there.
                first = consumer.poll(_POLL_S)
                batch = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
            for message in batch:
                error = message.error()
                if error is not None:
                    if self._at_end(message, error, seen) >= end:
                        return
                    continue
                if message.offset() >= end:
                    return
                heard_s, seen = self._clock.monotonic_s(), message.offset() + 1
                yield record_of(message)
                if seen >= end:
                    return
            if self._clock.monotonic_s() - heard_s > self._timeout_s:
                raise self._connection.unreachable("read", topic=topic, partition=partition, offset=seen, end=end)

    def _at_end(self, message: Any, error: KafkaError, seen: int) -> int:
        """The offset that the partition ends at, or -1 for an error that may pass; raises for one that will not."""
        if error.code() == AT_END:
            return int(message.offset())
        coordinates = {"topic": message.topic(), "partition": message.partition(), "offset": seen}
        if error.code() in NOT_HELD:
            raise Terminal(
                "the log does not hold this offset (removed by retention, or the topic was made anew)",
                fix="Start again from an offset that it holds, or rebuild.",
                **coordinates,
            )
        ours = self._connection.error(error, "read", **coordinates)
        if isinstance(ours, Terminal):
            raise ours
        return -1


def record_of(message: Any) -> Record:
    """A message of the client as a record."""
    _kind, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        timestamp_ms,
    )
