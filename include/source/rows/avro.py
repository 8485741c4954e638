"""Bytes of Avro values, made as fast as plain Python can: zigzag varints from tables of 14 bits.

https://avro.apache.org/docs/1.12.0/specification/#binary-encoding. A *piece* is a value of a nullable field: its branch
of the union `["null", T]` and the value. A *bare* value is a piece without its first byte.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "DECIMAL_HEADS",
    "LAST",
    "LAST_PIECE",
    "MORE",
    "MORE_PIECE",
    "NULL",
    "decimal",
    "long",
    "long_piece",
    "micros_piece",
    "sized",
    "text_map",
]

NULL: Final = b"\x00"
_SHIFT: Final = 14
_MASK: Final = (1 << _SHIFT) - 1


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


LAST: Final = [_varint(n) for n in range(1 << _SHIFT)]
"""The varint of each number of 14 bits."""
MORE: Final = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << _SHIFT)]
"""The same as the beginning of a longer one."""
LAST_PIECE: Final = [b"\x02" + each for each in LAST]
MORE_PIECE: Final = [b"\x02" + each for each in MORE]
"""`LAST` and `MORE` at the beginning of a piece; what they are looked up by is the zigzag number, which is not bare."""


def _rest(z: int) -> bytes:
    if z <= _MASK:
        return LAST[z]
    if z < 1 << 28:
        return MORE[z & _MASK] + LAST[z >> 14]
    if z < 1 << 42:
        return MORE[z & _MASK] + MORE[z >> 14 & _MASK] + LAST[z >> 28]
    return MORE[z & _MASK] + MORE[z >> 14 & _MASK] + MORE[z >> 28 & _MASK] + _rest(z >> 42)


def long(n: int) -> bytes:
    """An int or a long; `n` fits 64 bits."""
    return _rest(n + n if n >= 0 else -n - n - 1)


def long_piece(n: int) -> bytes:
    """A nullable int or long that is there."""
    z = n + n if n >= 0 else -n - n - 1
    if z <= _MASK:
        return LAST_PIECE[z]
    return MORE_PIECE[z & _MASK] + (LAST[z >> 14] if z < 1 << 28 else _rest(z >> 14))


def micros_piece(n: int) -> bytes:
    """`long_piece`, for numbers that are mostly microseconds since 1970: those of 1972 to 2540 take one look."""
    if 1 << 46 <= n < 1 << 54:
        z = n + n
        return MORE_PIECE[z & _MASK] + MORE[z >> 14 & _MASK] + MORE[z >> 28 & _MASK] + LAST[z >> 42]
    return long_piece(n)


DECIMAL_HEADS: Final = [b"\x02" + _varint(size + size) for size in range(64)]
"""What a piece of a decimal begins with, by the bytes that its number takes."""


def sized(data: bytes) -> bytes:
    """A string (as UTF-8) or bytes."""
    return long(len(data)) + data


def decimal(unscaled: int) -> bytes:
    """An unscaled decimal: two's complement in the fewest bytes."""
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) >> 3
    return LAST[size + size] + unscaled.to_bytes(size, "big", signed=True)


def text_map(items: list[tuple[bytes, bytes]]) -> bytes:
    """A map of strings (as UTF-8), in the order given."""
    if not items:
        return NULL
    return long(len(items)) + b"".join(sized(key) + sized(value) for key, value in items) + NULL
