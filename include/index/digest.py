"""A document's state as one 64-bit number, and the small parts of it that an index can add up exactly.

S = 64-bit BLAKE2b over (doc_id, version, body). An index adds numbers as doubles, which are exact below 2^53, so S
goes into it as two limbs of 32 bits: the sum of up to 2^21 of them is exact. A view's bucket is a mix of S
(splitmix64's finaliser, https://prng.di.unimi.it/splitmix64.c) with a constant of the view. Not secure against an
adversary who makes documents with the same S.
"""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["BUCKET_BITS", "VIEWS", "bucket", "limbs", "of_limbs", "state_hash"]

_MASK: Final = (1 << 64) - 1
VIEWS: Final = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
"""A constant for each view."""
BUCKET_BITS: Final = 24


def state_hash(doc_id: str, version: int, body: bytes) -> int:
    """S of a living document; `body` is its canonical JSON (`record.json.body`)."""
    name = doc_id.encode()
    digest = hashlib.blake2b(len(name).to_bytes(4, "big"), digest_size=8)
    digest.update(name)
    digest.update(version.to_bytes(8, "big"))
    digest.update(body)
    return int.from_bytes(digest.digest(), "big")


def limbs(state: int) -> tuple[int, int]:
    """Low and high 32 bits of S: fields `d0` and `d1`."""
    return state & 0xFFFFFFFF, state >> 32


def of_limbs(d0: int, d1: int) -> int:
    """Inverse of `limbs`; of sums of limbs the sum of the states."""
    return d0 + (d1 << 32)


def bucket(state: int, view: int) -> int:
    """S's bucket of `BUCKET_BITS` bits in a view: fields `s0`, `s1`. Its top k bits are a coarser bucket."""
    x = state ^ VIEWS[view]
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return (x ^ x >> 31) >> (64 - BUCKET_BITS)
