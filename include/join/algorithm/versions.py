"""Versions of a join's outputs: twice the rank of the input record that caused them, one more for a put.

The rank is the place of that record among all records of all inputs, counted over the ranges that batches planned, by
input, partition and offset. So versions rise with each batch, and a row that left one join key for another in one
record is put after it was deleted, whichever bucket tells of it first. A row's own version would not do: an output
depends on rows of several inputs, whose versions do not compare (`tests/unit/join/test_histories.py` shows the tables
that come out wrong).

The vector of the rows' versions goes along in a header, for checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from include.errors import InvalidRecord, Terminal

__all__ = ["VECTOR_HEADER", "VersionVector", "of_put", "of_tombstone", "vector_from_header", "vector_to_header"]

VECTOR_HEADER: Final = "versions"
_MOST_RANK: Final = 1 << 43

VersionVector = tuple[int | None, ...]
"""The version of the row of each input; None where a left join has none."""


def of_put(rank: int) -> int:
    """The number of a put that the record of this rank caused."""
    return 2 * _checked(rank) + 1


def of_tombstone(rank: int) -> int:
    """The number of a tombstone that the record of this rank caused."""
    return 2 * _checked(rank)


def vector_to_header(vector: Sequence[int | None]) -> tuple[str, bytes]:
    """The header, such as `7,,1204`: versions with commas between, nothing where there is no row."""
    return VECTOR_HEADER, b",".join(b"" if version is None else b"%d" % version for version in vector)


def vector_from_header(headers: Iterable[tuple[str, bytes | None]]) -> VersionVector:
    """Inverse of `vector_to_header`; raises `InvalidRecord` without such a header."""
    found = next((value for name, value in headers if name == VECTOR_HEADER), None)
    parts = (found or b"").split(b",")
    if found is None or not all(part.isdigit() or not part for part in parts):
        raise InvalidRecord("record has no valid header of row versions", reason="versions", value=found)
    return tuple(int(part) if part else None for part in parts)


def _checked(rank: int) -> int:
    if not 0 <= rank < _MOST_RANK:
        raise Terminal(
            "a join has read more records than its versions can count",
            rank=rank,
            allowed=f"0..{_MOST_RANK - 1}",
            fix="Raise `epoch` of the join in the deployment file: its output begins a new lineage.",
        )
    return rank
