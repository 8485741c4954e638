"""Notes the partitions that topics have grown, and refuses growth where it would bring deleted keys back.

Where records are versioned by their key and partition (`PartitionEpochs`), growth is noticed before the next one is. A
compacted topic with versions of its own must not grow: it keeps what was deleted (`log.publishing.placement`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from include.errors import Terminal
from include.index.definition import IndexDefinition
from include.index.progress.document import IndexProgress
from include.index.progress.partition_epochs import known_numbers
from include.index.progress.steps import grown
from include.log.ports import LogReader, TopicAdmin
from include.log.publishing.placement import require_ungrown

__all__ = ["PartitionCounts", "require_no_growth"]

_LOG: Final = logging.getLogger(__name__)
_NOT_TOLD: Final = "this account may not see its settings; grant it DESCRIBE_CONFIGS on the topic"


def require_no_growth(definition: IndexDefinition, topic: str, admin: TopicAdmin, reader: LogReader) -> None:
    """Refuse a topic that has grown, where what was deleted in it would come back from there.

    Where the account may not see whether the topic is compacted, a warning is all.

    Raises `Terminal`, and `Transient` when the log does not answer.
    """
    if definition.topics[topic].key == "none" or definition.versions != "header":
        return
    if admin.settings(topic) is None:
        _LOG.warning("%s may have grown, and bring back what was deleted: %s", topic, _NOT_TOLD)
    elif admin.deletions_kept_ms(topic) is not None:
        require_ungrown(topic, reader)


class PartitionCounts:
    """Asks the log how many partitions the topics of an index have, where versions depend on it."""

    def __init__(self, definition: IndexDefinition, admin: TopicAdmin, reader: LogReader) -> None:
        by_offset = definition.versions == "offset"
        self._topics = {name: topic for name, topic in definition.topics.items() if by_offset and topic.key != "none"}
        self._admin = admin
        self._reader = reader

    def numbers(self, topic: str) -> Sequence[int]:
        """Declared numbers of partitions, of a topic whose versions count them."""
        own = self._topics.get(topic)
        return own.partitions if own is not None and own.partitioner == "murmur2" else ()

    def look(self, progress: IndexProgress) -> IndexProgress:
        """`progress` with the topic's present number of partitions; to be kept before the next record is worked off.

        Raises `Terminal` for a topic that may not grow, and `Transient` when the log does not answer.
        """
        topic = self._topics.get(progress.topic)
        described = self._admin.describe(progress.topic) if topic else None
        if topic is None or described is None:
            return progress
        known = progress.partitions[-1].number if progress.partitions else described.partitions
        if known == described.partitions and progress.partitions:
            return progress
        if topic.partitioner == "any" and known < described.partitions:
            raise Terminal(
                "topic has grown, and nobody can say where its keys were before",
                topic=progress.topic,
                partitions=described.partitions,
                before=known,
                fix="Make the topic anew and raise its generation, or let its writer send a header `version`.",
            )
        if not progress.partitions:
            # With what is declared from the first record on: a number that is declared later begins it anew.
            progress = replace(progress, partitions=known_numbers(self.numbers(progress.topic), ()))
        return grown(progress, described.partitions, self._reader.end_offsets(progress.topic))
