"""Sums over the hashes of rows: a tree of them finds what differs between two sets of rows.

Sums and not XOR, which two equal differences cancel; of MD5's first 64 bits and not CRC, which is linear. One half and
not both: a server makes the hash anew for each use of it, so that the second half would cost half of the speed; two
different leaves are alike once in 2^64. A leaf has the rows whose key's CRC begins with its number, so that any key
divides rows evenly (what is compared does not rest on it); sums of leaves are sums of their rows.
"""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple, Self

__all__ = ["LEAF_BITS", "HashSum", "bits_for", "leaf_of"]

LEAF_BITS: Final = 32
"""The most that a leaf's number has."""
_LEAF_ROWS: Final = 500


class HashSum(NamedTuple):
    """How many rows, and the sum of their hashes' first 64 bits, as a number without bounds."""

    rows: int = 0
    total: int = 0

    @classmethod
    def of(cls, hashed: str) -> Self:
        """Of one row, by its hash of 32 hex digits."""
        return cls(1, int(hashed[:16], 16))

    def plus(self, other: HashSum) -> HashSum:
        """Of the rows of both."""
        return HashSum(self.rows + other.rows, self.total + other.total)

    def minus(self, other: HashSum) -> HashSum:
        """Of the rows of this one without those of the other, which are among them."""
        return HashSum(self.rows - other.rows, self.total - other.total)


def leaf_of(key_text: bytes, bits: int) -> int:
    """The leaf of a row, by the text of its key: the first so many bits (0 to `LEAF_BITS`) of its CRC-32."""
    return zlib.crc32(key_text) >> (LEAF_BITS - bits)


def bits_for(rows: int) -> int:
    """So many bits that leaves of so many rows hardly ever have a thousand."""
    return min(LEAF_BITS, max(0, -(-rows // _LEAF_ROWS) - 1).bit_length())
