"""Open the writer of a source's topics, and first of all end what Kafka left open there (`log.publishing.unended`).

A group of capture is one transaction, and its resolved record speaks for all of it. So it was committed, if that record
is seen while rows before it are not, or if rows are seen that no resolved record speaks for. Otherwise nobody has seen
anything of it: it is aborted, and read from the source again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from include.clock import Clock
from include.log.ports import LogReader, LogWriter, TopicAdmin
from include.log.publishing.unended import TopicPartition, open_ended
from include.log.resolved import PartitionEnds
from include.log.topics import TopicName, source_resolved
from include.source.log.checkpoint import Checkpoint, read_checkpoint
from include.source.log.ports import LogPorts

__all__ = ["open_writer", "own_topics", "was_committed"]


def open_writer(name: str, ports: LogPorts, clock: Clock) -> tuple[LogWriter, Checkpoint]:
    """The one writer of a source's topics, and the checkpoint that it goes on from; all that was written has its end.

    Raises:
        Terminal: a transaction of some other producer is open there.
    """
    resolved, read = source_resolved(name), list[Checkpoint]()

    def topics() -> list[str]:
        # Only after the fence: now the topics' ends cannot move under us.
        read[:] = [read_checkpoint(ports.reader, resolved)]
        return own_topics(name, ports.admin)

    def committed(left: Mapping[TopicPartition, int]) -> bool:
        others = [topic for topic in own_topics(name, ports.admin) if topic != resolved]
        return _was_committed(left, read[0].ends, others, ports.reader)

    writer = open_ended(
        name,
        writer=ports.writer,
        topics=topics,
        was_committed=committed,
        finish=ports.finish,
        reader=ports.reader,
        clock=clock,
    )
    return writer, read[0]


def own_topics(name: str, admin: TopicAdmin) -> list[str]:
    """All topics that capture of that source alone writes to: not requests, nor what others set aside of its tables."""
    return [topic for topic in admin.names() if _is_own(TopicName.parse(topic), name)]


def was_committed(
    left: Mapping[TopicPartition, int],
    ends: PartitionEnds,
    stable: Mapping[TopicPartition, int],
    is_read: Callable[[str, int, int, int], bool],
) -> bool:
    """Whether the transaction that has no end in `left` was committed.

    Args:
        left: last stable offsets; its records lie at and after them.
        ends: next offsets that the newest resolved record names.
        stable: last stable offsets of the source's partitions, but its resolved topic's.
        is_read: whether readers see a record of (topic, partition) with start <= offset < end.
    """
    if any(ends.get(place, 0) > offset for place, offset in left.items()):
        return True
    return any(is_read(*place, ends.get(place, 0), offset) for place, offset in stable.items())


def _is_own(topic: TopicName, name: str) -> bool:
    return topic.source == name and topic.kind != "requests"


def _was_committed(
    left: Mapping[TopicPartition, int], ends: PartitionEnds, topics: Collection[str], reader: LogReader
) -> bool:
    begins = {(topic, p): begin for topic in topics for p, begin in reader.begin_offsets(topic).items()}
    stable = {(topic, p): end for topic in topics for p, end in reader.end_offsets(topic).items()}

    def is_read(topic: str, partition: int, start: int, end: int) -> bool:
        first = max(start, begins.get((topic, partition), 0))
        return any(True for _ in reader.read(topic, partition, first, end))

    return was_committed(left, ends, stable, is_read)
