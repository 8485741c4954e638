"""Unpacks what is packed in the lake's files, never to more than a stated number of bytes.

Some kilobytes may stand for gigabytes. Each way here stops at the bound and says so; none makes more first.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Final

from include.zstd_blocks import whole_zstd

__all__ = ["MOST_BYTES", "TooLargeError", "bunzip", "gunzip", "inflate", "unsnap", "unxz", "unzstd"]

MOST_BYTES: Final = 1 << 30
"""Of one value, one block, or one file that Hadoop packed as a whole: nothing that the lake writes has more."""

_XZ_MEMORY: Final = 1 << 28
# More than so many bytes no byte of Snappy can stand for: what tells to is damaged, and is given no room.
_SNAPPY_RATIO: Final = 22


class TooLargeError(ValueError):
    """What was packed has more bytes than are allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it unpacks to more than {most} bytes")


def inflate(data: bytes, most: int, window: int = zlib.MAX_WBITS) -> bytes:
    """One stream of zlib; `window` as `zlib.decompressobj` takes it. What stands behind it is not looked at."""
    return _one(zlib.decompressobj(window), data, most)[0]


def gunzip(data: bytes, most: int) -> bytes:
    """Members of gzip; zeros may stand behind each."""
    return _all(lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), data, most)


def bunzip(data: bytes, most: int) -> bytes:
    """Streams of bzip2."""
    return _all(bz2.BZ2Decompressor, data, most)


def unxz(data: bytes, most: int) -> bytes:
    """Streams of xz, whose dictionaries take 256 MiB at most."""
    return _all(lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), data, most)


def unzstd(data: bytes, most: int) -> bytes:
    """Frames of zstd, with windows of 128 MiB at most."""
    try:
        return whole_zstd(data, most)
    except ValueError as error:
        raise TooLargeError(most) from error


def unsnap(data: bytes, most: int) -> bytes:
    """One raw block of Snappy."""
    from pyarrow.lib import Codec

    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise TooLargeError(most)
    if size > len(data) * _SNAPPY_RATIO:
        raise ValueError("a block tells to hold more than it can")
    content: Any = Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    return bytes(content)


def _one(machine: Any, data: bytes, most: int) -> tuple[bytes, bytes]:
    """The content of a stream, and what stands behind it."""
    content: bytes = machine.decompress(data, most + 1)
    if len(content) > most:
        raise TooLargeError(most)
    if not machine.eof:
        raise EOFError("its last stream is not whole")
    return content, machine.unused_data


def _all(machine: Callable[[], Any], data: bytes, most: int) -> bytes:
    parts, left = [], most
    try:
        while data:
            content, data = _one(machine(), data, left)
            parts.append(content)
            left -= len(content)
            data = data.lstrip(b"\0")
    except TooLargeError as error:
        raise TooLargeError(most) from error
    return b"".join(parts)
