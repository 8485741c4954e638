"""The definition of a feed: a topic whose records fill an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from include.index.definition import IndexTopic
from include.index.identity import index_id
from include.index.metadata import TopicOrigin

__all__ = ["Feed", "PartitionNumber", "VersionSource"]

VersionSource = Literal["header", "offset"]


@dataclass(frozen=True, slots=True)
class PartitionNumber:
    """How many partitions a topic had, and which ends they had when there were more; None where that is not known."""

    number: int
    until: Mapping[int, int] | None = None


_NO_NUMBERS: Final[tuple[PartitionNumber, ...]] = ()


@dataclass(frozen=True, slots=True)
class Feed:
    """The rules by which one topic's records become documents of one index; plain values, as it travels to workers.

    `shared`: several topics fill the index. `numbers`: all numbers of partitions that the topic has had. `floor`: no
    row with a version below it lives (0: none known).
    """

    origin: TopicOrigin
    topic: IndexTopic
    versions: VersionSource = "header"
    shared: bool = False
    numbers: tuple[PartitionNumber, ...] = _NO_NUMBERS
    floor: int = 0

    @property
    def name(self) -> str:
        """The topic's."""
        return self.origin.topic

    def index_id(self, doc_id: str) -> str:
        """The document's `_id` in the index."""
        return index_id(self.origin.topic, doc_id) if self.shared else doc_id
