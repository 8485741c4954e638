"""Versions of records that bring none: the topic's generation and the record's place, so that the later record wins.

Within a partition the later record has the greater offset. When a topic gets more partitions, keys move: the records
of a key then lie in two partitions, and their offsets say nothing of each other. So the version counts eras above
offsets: era i is the time of the i-th number of partitions, and a record's era follows from its key and partition, as
producers choose partitions by murmur2 of the key (the Java client's default; `record.key.partition_of`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from include.errors import SettingsError, Terminal
from include.index.feed import PartitionNumber
from include.record.key import murmur2
from include.record.version import pack

__all__ = ["MOST_ERAS", "PartitionEpochs", "known_numbers"]

_OFFSET_BITS: Final = 40
MOST_ERAS: Final = 16


def known_numbers(declared: Sequence[int], noted: Sequence[PartitionNumber]) -> tuple[PartitionNumber, ...]:
    """All numbers of partitions that a topic has had, in order, as declared and as seen.

    Ends that were seen when there were more partitions tell when a key left only if no growth was missed before them:
    with a number declared in between they are not known. Raises `SettingsError` for declared numbers that do not grow.
    """
    if any(later <= former for former, later in itertools.pairwise(declared)) or min(declared, default=1) < 1:
        raise SettingsError("numbers of partitions only grow", partitions=list(declared), fix="List them in order.")
    seen = {each.number: each for each in noted}
    followed = {(former.number, later.number) for former, later in itertools.pairwise(noted)}
    numbers = sorted({*declared, *seen})
    out = []
    for number, following in itertools.zip_longest(numbers, numbers[1:]):
        sure = number in seen and (number, following) in followed
        out.append(seen[number] if sure else PartitionNumber(number))
    return tuple(out)


class PartitionEpochs:
    """Versions of one topic's records. `numbers` is empty where a partition never says anything about the key."""

    def __init__(self, topic: str, generation: int, numbers: Sequence[PartitionNumber] = ()) -> None:
        if len(numbers) > MOST_ERAS:
            raise Terminal("topic has grown too often", topic=topic, allowed=MOST_ERAS, fix="Make it anew.")
        self._topic = topic
        self._base = pack(generation, 0)
        self._numbers = tuple(numbers)

    def version(self, key: bytes | None, partition: int, offset: int) -> int:
        """The record's version; raises `Terminal` for a key that no known number of partitions puts there."""
        if offset >= 1 << _OFFSET_BITS:
            raise Terminal("offset does not fit a version", topic=self._topic, partition=partition, offset=offset)
        era = 0 if key is None or not self._numbers else self._era(murmur2(key) & 0x7FFFFFFF, partition, offset)
        return self._base | era << _OFFSET_BITS | offset

    def _era(self, hashed: int, partition: int, offset: int) -> int:
        numbers = self._numbers
        fits = [i for i, each in enumerate(numbers) if hashed % each.number == partition]
        if not fits:
            raise self._unexplained(partition, offset)
        # Numbers next to each other that leave the key where it is are one era: offsets order its records there, and
        # its versions stay what they are when the topic grows again. A producer that still counts by an old number
        # writes an older state, too.
        first = fits[0]
        for last, following in itertools.pairwise(fits):
            if following == last + 1:
                continue
            # The key left and came back: only the end that the partition had when it left tells the two apart.
            until = numbers[last].until
            if until is None:
                raise self._undecided(partition, offset)
            if offset < until.get(partition, 0):
                return first
            first = following
        return first

    def _undecided(self, partition: int, offset: int) -> Terminal:
        numbers = [each.number for each in self._numbers]
        return Terminal(
            "the key was in this partition, left it and came back, and nobody saw when",
            topic=self._topic,
            partition=partition,
            offset=offset,
            known=numbers,
            fix="Make the topic anew and raise its generation, or let its writer send a header `version`.",
        )

    def _unexplained(self, partition: int, offset: int) -> Terminal:
        numbers = [each.number for each in self._numbers]
        return Terminal(
            "no known number of partitions puts this key where it is, so nobody can say which state is newer",
            topic=self._topic,
            partition=partition,
            offset=offset,
            known=numbers,
            fix=f"If the topic has grown, declare all numbers it has had, as `partitions: [3, {numbers[-1]}]`; if its "
            "producers choose partitions otherwise, declare `partitioner: any`.",
        )
