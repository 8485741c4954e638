"""Definition of the port by which the lake reads a log: edges of partitions, ranges of offsets in batches of messages.

`kafka_ranges` and `PortRanges` (any `LogReader`, so the log in memory) both pass `tests/contract/test_lake_ranges.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, Protocol

from typing_extensions import override

from include.errors import Terminal
from include.lake.message import Message
from include.log.ports import LogReader, TopicAdmin

__all__ = ["LogRanges", "MessageBatch", "PortRanges"]

_BATCH: Final = 1000


class MessageBatch(NamedTuple):
    """Messages of one partition, at least one, in the order of their offsets.

    `leader_epoch` is that of the leader who gave the last of them; None where it is not told.
    """

    messages: list[Message]
    leader_epoch: int | None = None


class LogRanges(Protocol):
    """Committed records only. Calls may block and raise `Transient` when the log does not answer."""

    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        """(first offset still held, last stable offset).

        `Terminal` for a partition that does not exist, `Transient` where the log cannot tell that from one away.
        """

    def topic_id(self, topic: str) -> str:
        """`named_id` of the topic of that name, which no other one ever has; "" where there is none."""

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        """The records with start <= offset < end; ends when all up to `end` are read. May be left half-way.

        Raises:
            Terminal: the log does not hold `start` any more.
        """

    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        """Epoch of the leader who took the last record below `offset`; None where it is not told, or there is none."""


class PortRanges(LogRanges):
    """`LogRanges` over a `LogReader` and a `TopicAdmin`."""

    def __init__(self, reader: LogReader, admin: TopicAdmin) -> None:
        self._reader, self._admin = reader, admin

    @override
    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        try:
            return self._reader.begin_offsets(topic)[partition], self._reader.end_offsets(topic)[partition]
        except KeyError:
            raise Terminal("partition does not exist", topic=topic, partition=partition) from None

    @override
    def topic_id(self, topic: str) -> str:
        info = self._admin.describe(topic)
        return "" if info is None else info.named_id

    @override
    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        """The port does not tell who set a timestamp: the producer is taken to have."""
        records = self._reader.read(topic, partition, start, end)
        while batch := [
            Message(each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms, 1)
            for each in islice(records, _BATCH)
        ]:
            yield MessageBatch(batch)

    @override
    def epoch_before(self, topic: str, partition: int, offset: int) -> int | None:
        """The port does not tell."""
        return None
