"""Open the one writer of some topics, and first of all end what Kafka left open there.

Kafka may forget to tell partitions how a transaction ended (`log.kafka.transaction_end`). Whoever goes on without a
look would read a state that is older than what was committed, write it again, and commit both.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Final

from include.clock import Clock
from include.errors import Terminal
from include.log.ports import LogReader, LogWriter

__all__ = ["TopicPartition", "find_hanging", "open_ended", "unended"]

_LOG: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 1.0
_EVERY_S: Final = 0.1
# What is ended may be forgotten again, if Kafka starts again meanwhile.
_TRIES: Final = 4
TopicPartition = tuple[str, int]
"""(topic, partition)."""


def open_ended(
    what: str,
    *,
    writer: Callable[[], LogWriter],
    topics: Callable[[], Collection[str]],
    was_committed: Callable[[Mapping[TopicPartition, int]], bool],
    finish: Callable[[Collection[TopicPartition], bool], None],
    reader: LogReader,
    clock: Clock,
) -> LogWriter:
    """The writer, where all that was written has its end.

    Args:
        what: names the writer in errors.
        writer: opens it, and fences the ones before.
        topics: those that it alone writes to; asked for after the fence, when their ends cannot move any more.
        was_committed: whether the transaction that has no end at these places ((topic, partition) → last stable
            offset) was committed, by what can be seen of it.
        finish: fences the writer, and writes an end to these places: a commit, or else an abort.
        reader: of the log.
        clock: for waits of a second at most.

    Raises:
        Terminal: a transaction of some other producer is open there.
    """
    left: dict[TopicPartition, int] = {}
    for _ in range(_TRIES):
        opened = writer()
        try:
            left = unended(reader, topics(), clock)
            if not left:
                return opened
            commit = was_committed(left)
        except BaseException:
            opened.close()
            raise
        opened.close()
        _LOG.warning(
            "Kafka left a transaction of %s open in %d partitions (first: %s): %s",
            what,
            len(left),
            min(left),
            "it is committed now, as a part of it was" if commit else "it is aborted now, and done again",
        )
        finish(left, commit)
    (topic, partition), offset = min(left.items())
    raise Terminal(
        "a transaction of another producer is open in a topic that one process alone may write",
        writer=what,
        topic=topic,
        partition=partition,
        offset=offset,
        partitions=len(left),
        fix="See who writes there (`kafka-transactions.sh describe-producers`), end that, and start again.",
    )


def unended(
    reader: LogReader, topics: Collection[str], clock: Clock, patience_s: float = _PATIENCE_S
) -> dict[TopicPartition, int]:
    """(topic, partition) → last stable offset, of those that are not told of an end within `patience_s`."""
    until_s = clock.monotonic_s() + patience_s
    while True:
        found = reader.unended(topics)
        if not found or clock.monotonic_s() >= until_s:
            return found
        clock.sleep(_EVERY_S)


def find_hanging(topic: str, partition: int) -> str:
    """Kafka's own command that tells whether a partition's transaction hangs; what it finds another one aborts."""
    at = f"--topic {shlex.quote(topic)} --partition {partition}"
    return f"kafka-transactions.sh --bootstrap-server … find-hanging {at}"
