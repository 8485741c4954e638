"""Open the log's writer, and first of all end what Kafka left open.

Kafka may forget to tell partitions how a transaction ended (`include.log.transaction_end`). Whoever goes on without a
look would read a checkpoint that is older than what was committed, write it again, and commit both.

A group of capture is one transaction, and its resolved record speaks for all of it. So it was committed, if that record
is seen while rows before it are not, or if rows are seen that no resolved record speaks for. Otherwise nobody has seen
anything of it: it is aborted, and read from the source again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.log.ports import LogReader, LogWriter, TopicAdmin
from include.log.resolved import Ends
from include.log.topics import source_requests, source_resolved
from include.source.checkpoint import Checkpoint, read_checkpoint
from include.source.log_ports import LogPorts

__all__ = ["open_writer", "own_topics", "unended", "was_committed"]

_LOG: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 1.0
_EVERY_S: Final = 0.1
# What is ended may be forgotten again, if Kafka starts again meanwhile.
_TRIES: Final = 4
_Place = tuple[str, int]


def open_writer(name: str, ports: LogPorts, clock: Clock) -> tuple[LogWriter, Checkpoint]:
    """The one writer of a source's topics, and the checkpoint that it goes on from; all that was written has its end.

    Raises:
        Terminal: a transaction of some other producer is open there.
    """
    resolved, left = source_resolved(name), dict[_Place, int]()
    for _ in range(_TRIES):
        writer = ports.writer()
        try:
            # Only after the fence: now the topics' ends cannot move under us.
            found, topics = read_checkpoint(ports.reader, resolved), own_topics(name, ports.admin)
            left = unended(ports.reader, topics, clock)
            if not left:
                return writer, found
            commit = _was_committed(left, found.ends, [topic for topic in topics if topic != resolved], ports.reader)
        except BaseException:
            writer.close()
            raise
        writer.close()
        _LOG.warning(
            "Kafka left a transaction of %s open in %d partitions (first: %s): %s",
            name,
            len(left),
            min(left),
            "it is committed now, as a part of it was" if commit else "it is aborted now, and read again",
        )
        ports.finish(left, commit)
    raise _foreign(name, left)


def own_topics(name: str, admin: TopicAdmin) -> list[str]:
    """All topics that capture of that source alone writes to."""
    resolved, asked = source_resolved(name), source_requests(name)
    stem = resolved.removesuffix("resolved")
    return [topic for topic in admin.names() if topic.startswith(stem) and topic != asked]


def unended(
    reader: LogReader, topics: Collection[str], clock: Clock, patience_s: float = _PATIENCE_S
) -> dict[_Place, int]:
    """(topic, partition) → last stable offset, of those that are not told of an end within `patience_s`."""
    until_s = clock.monotonic_s() + patience_s
    while True:
        found = reader.unended(topics)
        if not found or clock.monotonic_s() >= until_s:
            return found
        clock.sleep(_EVERY_S)


def was_committed(
    left: Mapping[_Place, int],
    ends: Ends,
    stable: Mapping[_Place, int],
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


def _was_committed(left: Mapping[_Place, int], ends: Ends, topics: Collection[str], reader: LogReader) -> bool:
    begins = {(topic, p): begin for topic in topics for p, begin in reader.begin_offsets(topic).items()}
    stable = {(topic, p): end for topic in topics for p, end in reader.end_offsets(topic).items()}

    def is_read(topic: str, partition: int, start: int, end: int) -> bool:
        first = max(start, begins.get((topic, partition), 0))
        return any(True for _ in reader.read(topic, partition, first, end))

    return was_committed(left, ends, stable, is_read)


def _foreign(name: str, left: Mapping[_Place, int]) -> LyrebirdError:
    (topic, partition), offset = min(left.items())
    return Terminal(
        "a transaction of another producer is open in a topic of this source",
        source=name,
        topic=topic,
        partition=partition,
        offset=offset,
        partitions=len(left),
        fix="See who writes there (`kafka-transactions.sh describe-producers`), end that, and start capture again.",
    )
