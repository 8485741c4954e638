"""Puts and deletes as bytes: what a bucket's log has, and what an undo keeps.

```
"LBs" codec(1) crc32(4, of the rest) zstd( count(4) lengths(count × 8) keys values )
```
A length of 0xFFFFFFFF stands for a value that is deleted. Numbers are little-endian.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

import zstandard

from include.errors import Terminal

__all__ = ["CODEC", "pack", "unpack"]

CODEC: Final = 1
"""Version of these bytes and of the pointer's: a release that writes others raises it."""

_MAGIC: Final = b"LBs"
_HEAD: Final = struct.Struct("<3sBI")
_COUNT: Final = struct.Struct("<I")
_DELETED: Final = 0xFFFFFFFF
_LEVEL: Final = 1


def pack(rows: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """These rows, in their order."""
    pairs = list(rows)
    keys = [key for key, _ in pairs]
    values = [value for _, value in pairs]
    lengths = array("I", map(len, keys))
    lengths.extend(_DELETED if value is None else len(value) for value in values)
    if sys.byteorder != "little":
        lengths.byteswap()
    plain = b"".join((_COUNT.pack(len(pairs)), lengths.tobytes(), *keys, *(value for value in values if value)))
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(plain)
    return _HEAD.pack(_MAGIC, CODEC, zlib.crc32(body)) + body


def unpack(packed: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Inverse of `pack`.

    Raises:
        Terminal: the bytes are damaged, or of a codec that this release does not know.
    """
    if len(packed) < _HEAD.size:
        raise Terminal("rows of the state are cut short", size=len(packed))
    magic, codec, crc = _HEAD.unpack_from(packed)
    body = memoryview(packed)[_HEAD.size :]
    if magic != _MAGIC or codec != CODEC:
        raise Terminal(
            "rows of the state are in another form than this release writes",
            codec=codec if magic == _MAGIC else None,
            allowed=CODEC,
            fix="Export the state with the release that wrote it and import it with this one (`lyrebird state`).",
        )
    if zlib.crc32(body) != crc:
        raise Terminal("rows of the state are damaged: their checksum is another", size=len(packed))
    plain = zstandard.ZstdDecompressor().decompress(body)
    (count,) = _COUNT.unpack_from(plain)
    lengths = array("I")
    begin = _COUNT.size + 2 * count * lengths.itemsize
    lengths.frombytes(plain[_COUNT.size : begin])
    if sys.byteorder != "little":
        lengths.byteswap()
    keys, values = lengths[:count], lengths[count:]
    key_at = list(accumulate(keys, initial=begin))
    offset = key_at[-1]
    for place, length in enumerate(values):
        key = plain[key_at[place] : key_at[place + 1]]
        if length == _DELETED:
            yield key, None
        else:
            yield key, plain[offset : offset + length]
            offset += length
