"""UUID, INET, VECTOR and compressed columns of row images → UTF-8 text, Avro pieces, plain bytes.

The server cuts trailing zero bytes of UUID and INET values, as it does of BINARY. Compressed columns are MariaDB's:
https://mariadb.com/kb/en/storage-engine-independent-column-compression/.
"""

from __future__ import annotations

import ipaddress
import re
import struct
import uuid
import zlib
from typing import Final

from include.source.malformed import Malformed
from include.source.rows.avro import NULL, long_piece

__all__ = ["inet4_text", "inet6_text", "uncompressed", "uuid_text", "vector_piece"]

_WORDS: Final = struct.Struct(">8H")
_ZEROS: Final = re.compile("0+")


def _padded(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise Malformed(f"{len(data)} bytes where {size} belong")
    return data.ljust(size, b"\0")


def uuid_text(data: bytes) -> bytes:
    """A UUID's 36 characters."""
    return str(uuid.UUID(bytes=_padded(data, 16))).encode()


def inet4_text(data: bytes) -> bytes:
    """Dotted quad."""
    return str(ipaddress.IPv4Address(_padded(data, 4))).encode()


def inet6_text(data: bytes) -> bytes:
    """The address as MariaDB shows it.

    Mapped and compatible IPv4 addresses end in a dotted quad. The first of the longest runs of zero words is left out,
    unlike in RFC 5952 also where that is one word alone.
    """
    raw = _padded(data, 16)
    if raw[:10] == b"\0" * 10 and (raw[10:12] == b"\xff\xff" or (raw[10:12] == b"\0\0" and raw[12:14] != b"\0\0")):
        head = "::ffff:" if raw[10:12] == b"\xff\xff" else "::"
        return f"{head}{ipaddress.IPv4Address(raw[12:])}".encode()
    words = _WORDS.unpack(raw)
    size = max((len(run) for run in _ZEROS.findall("".join("0" if word == 0 else "x" for word in words))), default=0)
    if not size:
        return ":".join(f"{word:x}" for word in words).encode()
    gap = next(at for at in range(9 - size) if not any(words[at : at + size]))
    before, after = (":".join(f"{word:x}" for word in part) for part in (words[:gap], words[gap + size :]))
    return f"{before}::{after}".encode()


def vector_piece(data: bytes) -> bytes:
    """The piece of an array of floats: they lie in the value as Avro wants them."""
    if len(data) % 4:
        raise Malformed(f"{len(data)} bytes are no vector of float32")
    count = len(data) // 4
    return b"\x02" + (long_piece(count)[1:] + data + NULL if count else NULL)


def uncompressed(data: bytes) -> bytes:
    """The value of a COMPRESSED column; raises `ValueError` unless it has the length that its header says."""
    if not data:
        return b""
    head = data[0]
    if not head:
        return data[1:]
    size = head & 7
    if not head & 0x80 or head & 0x70 or not 1 <= size <= 4 or len(data) < 1 + size:
        raise Malformed(f"compressed column with a header of {head:#x}")
    length = int.from_bytes(data[1 : 1 + size], "big")
    engine = zlib.decompressobj(-15 if head & 8 else 15)
    try:
        value = engine.decompress(data[1 + size :], length + 1)
    except zlib.error as error:
        raise Malformed(f"compressed column: {error}") from error
    if len(value) != length or not engine.eof or engine.unused_data:
        raise Malformed(f"compressed column holds {len(value)} bytes, not as many as it says")
    return value
