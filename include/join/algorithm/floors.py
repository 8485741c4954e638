"""Makes touches of a table's floor: rows of the input below it go, those that it spares are written again.

A row may have left its join key in a gap that nobody saw. Then it stands in the state twice, and the floor removes the
older one with a tombstone of its own rank; so the living one is put again at that rank, lest the tombstone beat it. And
what a floor removes is written even where the batch puts the same there again, as it may have been told of elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from include.join.algorithm.row import Row, Touch, row_place
from include.state.reading import BucketRows

__all__ = ["touches_of_floor"]


def touches_of_floor(state: BucketRows, input: int, floor: int, rank: int) -> Iterator[Touch]:
    """The touches of a control record of this rank, for all rows of an input in a bucket; it reads all of them."""
    for kept, value in state.scan(b"r"):
        join_key, of_input, key = row_place(kept)
        if of_input != input:
            continue
        row = Row.from_bytes(value)
        if row.version < floor:
            yield Touch(join_key, rank, input, key, floor, None, again=True)
        else:
            yield Touch(join_key, rank, input, key, row.version, row, again=True)
