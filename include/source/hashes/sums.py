"""Sums over the hashes of rows: a tree of them finds what differs between two sets of rows.

Sums and not XOR, which two equal differences cancel; of MD5's two halves and not CRC, which is linear. A leaf has the
rows whose key hashes to its number, so that any key divides rows evenly; sums of leaves are sums of their rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

__all__ = ["LEAF_BITS", "HashSum", "bits_for", "leaf_of"]

LEAF_BITS: Final = 32
"""The most that a leaf's number has."""
_LEAF_ROWS: Final = 500


class HashSum(NamedTuple):
    """How many rows, and the sums of their hashes' first and last 64 bits, as numbers without bounds."""

    rows: int = 0
    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, hashed: str) -> Self:
        """Of one row, by its hash of 32 hex digits."""
        return cls(1, int(hashed[:16], 16), int(hashed[16:], 16))

    def plus(self, other: HashSum) -> HashSum:
        """Of the rows of both."""
        return HashSum(self.rows + other.rows, self.first + other.first, self.last + other.last)

    def minus(self, other: HashSum) -> HashSum:
        """Of the rows of this one without those of the other, which are among them."""
        return HashSum(self.rows - other.rows, self.first - other.first, self.last - other.last)


def leaf_of(key_hash: str, bits: int) -> int:
    """The leaf of a row, by the hash of its key: the first so many bits (0 to `LEAF_BITS`)."""
    return int(key_hash[: LEAF_BITS // 4], 16) >> (LEAF_BITS - bits)


def bits_for(rows: int) -> int:
    """So many bits that leaves of so many rows hardly ever have a thousand."""
    return min(LEAF_BITS, max(0, -(-rows // _LEAF_ROWS) - 1).bit_length())
