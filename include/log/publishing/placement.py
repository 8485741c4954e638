"""Refuses a compacted topic that has grown: its keys lie where another number of partitions puts them.

A key of a topic that has grown goes to another partition from then on, and its last record stays behind in the old one:
compaction looks at one partition alone. While both are there, versions tell which is newer. But a deletion in the new
partition goes after `delete.retention.ms`, and the old record stays: who reads the topic from its beginning then, to
make a lost index again, finds a deleted entity alive. Nobody can tell it from one that has not changed since.

The first records of each partition show it, also where nobody noted how many partitions there were.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from include.errors import Terminal
from include.log.ports import LogReader
from include.record.key import partition_of

__all__ = ["former_numbers", "require_ungrown"]

Placed = tuple[bytes, int]
"""A key and the partition that it lies in."""

_FIX: Final = (
    "Stop what writes it, delete it with its `.resolved` and its consumer group, declare the number of partitions that "
    "it is to have, and start again: it is written anew from its source."
)
_SAMPLE: Final = 500
# More changes of the number than this, or fewer keys out of place, and it may be another rule that placed them.
_MOST_FORMER: Final = 3
_LEAST_MISPLACED: Final = 5


def require_ungrown(topic: str, reader: LogReader, fix: str = _FIX) -> None:
    """Refuse a keyed, compacted topic that has grown; `fix`: the way out.

    A topic whose keys are placed by another rule than the Java client's is passed, as nothing can be said of it.

    Raises:
        Terminal: it has grown.
        Transient: the log does not answer.
    """
    begins, ends = reader.begin_offsets(topic), reader.end_offsets(topic)
    placed: list[Placed] = []
    for partition, end in ends.items():
        with closing(reader.read(topic, partition, begins[partition], end)) as records:  # type: ignore[type-var]
            placed += [(r.key, partition) for r in itertools.islice(records, _SAMPLE) if r.key is not None]
    former = former_numbers(placed, len(ends))
    if former:
        raise Terminal(
            "topic has grown: records of deleted keys stay in the partitions that they lay in before",
            topic=topic,
            partitions=len(ends),
            before=former[0] if len(former) == 1 else list(former),
            fix=fix,
        )


def former_numbers(placed: Sequence[Placed], partitions: int) -> tuple[int, ...]:
    """Numbers of partitions that the topic must have had before to explain where its keys lie; empty if none must."""
    left = [placement for placement in placed if partition_of(placement[0], partitions) != placement[1]]
    if len(left) < _LEAST_MISPLACED:
        return ()
    numbers: list[int] = []
    while left and len(numbers) < _MOST_FORMER:
        unexplained = {
            number: [placement for placement in left if partition_of(placement[0], number) != placement[1]]
            for number in range(1, partitions)
        }
        best = min(unexplained, key=lambda number: len(unexplained[number]), default=partitions)
        if best == partitions or len(unexplained[best]) == len(left):
            return ()
        numbers.append(best)
        left = unexplained[best]
    return () if left else tuple(sorted(numbers))
