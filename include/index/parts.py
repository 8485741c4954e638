"""Cuts a long batch into parts, so that what waits is done again in small, and a guardian sees that work goes on."""

from __future__ import annotations

from typing import Any, Final

from include.index.rebuild.ranges import ranges_of, size_of
from include.log.plan import BatchPlan

__all__ = ["MOST", "parts_of"]

MOST: Final = 100_000
"""Offsets of one part, all partitions together. At 1,000 documents a second it is under two minutes."""


def parts_of(rows: Any, batch: BatchPlan, most: int = MOST) -> list[Any]:
    """`rows` themselves for a short batch; else lists of `Slice`, each of about `most` offsets, that make it up.

    Parts of a partition are in the order of the log.
    """
    work = {at: (batch.start.get(at, 0), end) for at, end in batch.ends.items() if end > batch.start.get(at, 0)}
    if size_of(work) <= most:
        return [rows]
    # Slices small enough that each part has some of every partition: all of them go on together.
    slices = ranges_of(work, max(1, most // len(work)), batch.topic_ids)
    parts: list[list[Any]] = [[]]
    size = 0
    for each in slices:
        if parts[-1] and size + each.size > most:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += each.size
    return parts
