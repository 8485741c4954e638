"""Whether a binlog file is whole: every event header leads to the next, every checksum fits, to the last byte.

Written apart from `include/source`, so that a recording is not judged by the reader that is tested with it.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter

__all__ = ["MAGIC", "require_whole"]

MAGIC = b"\xfebin"
_HEADER = struct.Struct("<IBIIIH")
_FORMAT_DESCRIPTION, _ROTATE, _STOP = 15, 4, 3


def require_whole(data: bytes) -> Counter[int]:
    """How many events of each type code there are; ValueError tells where the file is not what it should be.

    The last event must be the one that a server ends a file with.
    """
    if not data.startswith(MAGIC):
        raise ValueError(f"starts with {data[:4].hex()}, not with a binlog's magic")
    found: Counter[int] = Counter()
    at, kind, summed = len(MAGIC), -1, False
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise ValueError(f"{len(data) - at} bytes at {at} are no header")
        _, kind, _, size, end, _ = _HEADER.unpack_from(data, at)
        event = data[at : at + size]
        if size < _HEADER.size or len(event) != size:
            raise ValueError(f"event {kind} at {at} has the size {size}; the file ends at {len(data)}")
        # MariaDB 11.4 and newer write no position into events within a transaction.
        if end not in (0, at + size):
            raise ValueError(f"event {kind} at {at} says that it ends at {end}, not at {at + size}")
        if kind == _FORMAT_DESCRIPTION:
            summed = event[-5] == 1
        if summed and zlib.crc32(event[:-4]) != int.from_bytes(event[-4:], "little"):
            raise ValueError(f"event {kind} at {at} has another checksum than its bytes")
        found[kind] += 1
        at += size
    if kind not in (_ROTATE, _STOP):
        raise ValueError(f"ends with an event {kind}, so it was not closed")
    return found
