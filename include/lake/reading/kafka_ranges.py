"""`LogRanges` over Kafka: librdkafka's consumer, read_committed, a partition and a range at a time."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from typing_extensions import override

from include.errors import Terminal
from include.lake.message import Message
from include.lake.reading.log_ranges import LogRanges, MessageBatch
from include.log.kafka.errors import ClientOptions
from include.log.planning.slices import Slice, cached_consumer
from include.log.planning.survey import Edge, KafkaSurvey

__all__ = ["KafkaRanges"]

_FURTHER: Final = 16
_EDGES: Final[tuple[Edge, ...]] = ("begin", "end")


class KafkaRanges(LogRanges):
    """`LogRanges` of Kafka. Consumers are kept by the process for the next range. Not for use from several threads."""

    def __init__(self, bootstrap: str, options: ClientOptions | None = None) -> None:
        self._bootstrap, self._options = bootstrap, dict(options or {})
        self._survey: KafkaSurvey | None = None

    @override
    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        place, survey = (topic, partition), self._opened()
        begin, end = (survey.offsets([place], edge).get(place) for edge in _EDGES)
        if begin is None or end is None:
            raise Terminal(
                "partition does not exist",
                system="kafka",
                topic=topic,
                partition=partition,
                fix="Was the topic deleted or made anew?",
            )
        return begin, end

    @override
    def topic_id(self, topic: str) -> str:
        info = self._opened().topics([topic]).get(topic)
        return "" if info is None else info.named_id

    def _opened(self) -> KafkaSurvey:
        if self._survey is None:
            self._survey = KafkaSurvey(self._bootstrap, self._options)
        return self._survey

    @override
    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        """Left half-way it gives its consumer up, as what is on its way cannot be trusted."""
        if start >= end:
            return
        with cached_consumer(self._bootstrap, self._options) as consumer:
            for found in consumer.read([Slice(topic, partition, start, end)]):
                yield MessageBatch(_messages(found), found[-1].leader_epoch())

    @override
    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        """Looks further and further back, as markers and aborted records are none."""
        reach = 1
        while True:
            begin, _ = self.edges(topic, partition)
            start = max(begin, offset - reach)
            try:
                last = deque(self.batches(topic, partition, start, offset), maxlen=1)
            except Terminal:
                if self.edges(topic, partition)[0] <= start:
                    raise
                # Retention was faster.
                continue
            if last:
                return last[0].leader_epoch
            if start <= begin:
                return None
            reach *= _FURTHER


def _messages(found: Sequence[Any]) -> list[Message]:
    made: list[Message] = []
    while len(made) < len(found):
        try:
            _add(found[len(made) :] if made else found, made)
        except SystemError as error:
            each = found[len(made)]
            headers = _headers_with_raw_name(each, error)
            kind, timestamp_ms = each.timestamp()
            made.append(Message(each.offset(), each.key(), each.value(), headers, timestamp_ms if kind else -1, kind))
    return made


def _add(found: Sequence[Any], made: list[Message]) -> None:
    """One loop without calls of ours: there is one for each record."""
    new, add = tuple.__new__, made.append
    for message in found:
        kind, timestamp_ms = message.timestamp()
        headers = message.headers()
        fields = (
            message.offset(),
            message.key(),
            message.value(),
            tuple(headers) if headers else (),
            timestamp_ms if kind else -1,
            kind,
        )
        add(new(Message, fields))


def _headers_with_raw_name(message: Any, raised: SystemError) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a message whose `headers()` has `raised`; bytes that are not UTF-8 become lone surrogates.

    Kafka's client takes names for UTF-8. It raises where one is not, though not the name's own error alone, and keeps
    the list of headers, in which such names are missing (null in C: to touch one ends the process). The bytes of the
    first one are in the error; those of others are nowhere.

    Raises:
        Terminal: more than one name is not UTF-8.
        SystemError: `raised` is about something else.
    """
    cause: BaseException = raised
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, UnicodeDecodeError):
        raise raised
    pairs = message.headers()
    # A tuple tells its members to the garbage collector, but none that is missing.
    named = [len(gc.get_referents(pair)) == 2 for pair in pairs]
    if named.count(False) != 1:
        raise Terminal(
            "a record has several header names that are not UTF-8, and Kafka's client gives only one of them",
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            names=named.count(False),
            fix="Copy it with another client if it is needed, remove the partition's records up to it "
            "(kafka-delete-records.sh) or exclude the topic, and start the group again.",
        )
    name = cause.object.decode("utf-8", "surrogateescape")
    return tuple((pair[0] if there else name, pair[1]) for pair, there in zip(pairs, named, strict=True))
