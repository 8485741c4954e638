"""Cuts what is still to be read of topics into ranges that many tasks work off at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from include.log.planning.slices import Slice

__all__ = ["Work", "ranges_of", "size_of"]

_NO_IDS: Final[Mapping[str, str]] = {}
Work = Mapping[tuple[str, int], tuple[int, int]]
"""(topic, partition) -> from which offset to before which one."""


def ranges_of(work: Work, most: int, ids: Mapping[str, str] = _NO_IDS) -> list[Slice]:
    """Ranges of at most `most` offsets that make up `work`; `ids` are those of the topics.

    Those of a partition are in order, so that what is settled in the order of the list leaves no hole. Partitions take
    turns by the part of them that is done, so that all end together.
    """
    out: list[tuple[float, Slice]] = []
    for (topic, partition), (start, end) in work.items():
        size = end - start
        out += [
            ((at - start) / size, Slice(topic, partition, at, min(at + most, end), ids.get(topic, "")))
            for at in range(start, end, most)
        ]
    return [each for _, each in sorted(out)]


def size_of(work: Work) -> int:
    """Offsets in all."""
    return sum(max(0, end - start) for start, end in work.values())
