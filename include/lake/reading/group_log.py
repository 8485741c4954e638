"""Definition of the port that asks the log about many partitions of a group at once; `kafka_group` asks Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from include.log.planning.survey import HiddenOffsets
from include.log.ports import TopicInfo

__all__ = ["GroupLog", "TopicIdPartition"]


class TopicIdPartition(NamedTuple):
    """One Kafka partition of one life of a topic."""

    topic: str
    topic_id: str
    partition: int


class GroupLog(Protocol):
    """Every call raises `Transient` when the log does not answer."""

    def topics(self) -> list[TopicInfo]:
        """All that there are."""

    def edges(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, tuple[int, int]]:
        """(first offset held, last stable offset) of each that is there."""

    def hidden(self, tps: Iterable[TopicIdPartition]) -> dict[TopicIdPartition, HiddenOffsets]:
        """Offsets that are written and not shown yet, of those where a transaction has no end."""

    def begun_ms(self, tp: TopicIdPartition, offset: int) -> int:
        """Kafka timestamp of the first record from `offset` on, shown or not; -1 where none is found."""

    def timestamps_ms(self, offsets: Mapping[TopicIdPartition, int]) -> dict[TopicIdPartition, int]:
        """Kafka timestamp of each one's first record from its offset on.

        -1 where the record has none, there is none, or the partition or what was asked for has gone.
        """

    def epoch_before(self, tp: TopicIdPartition, offset: int) -> int | None:
        """Epoch of the leader who took the last record below `offset`; None where it is not told, or there is none."""
