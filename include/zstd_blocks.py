"""A stream of zstd frames unpacked block by block, whoever packed it.

A block is no more than 128 KiB of content, and two bytes of it may stand for all of that. The library's own ways either
unpack all that they are given, gigabytes for some kilobytes, or do not tell a stream that ends inside of a frame.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

import zstandard

__all__ = ["whole_zstd", "zstd_blocks"]

# The highest level of zstd uses windows of 128 MiB.
_WINDOW: Final = 1 << 27
_MAGIC: Final = 4
_LEAST_HEADER: Final = 5
_CHECKSUM: Final = 0x04
_SKIPPED: Final = range(0x184D2A50, 0x184D2A60)
_RLE: Final = 1
_PIECE: Final = 1 << 16


def zstd_blocks(read: Callable[[int], bytes]) -> Iterator[tuple[bytes, int]]:
    """The content of each block, not empty, and how many bytes of the stream were taken for it and all before it.

    `read(size)` gives so many bytes, less at the end only. Memory holds one block and the window, 128 MiB at most.
    Raises `EOFError` where the stream ends inside of a frame, `zstandard.ZstdError` for what is damaged, and for a
    larger window.
    """
    taken = 0

    def more(size: int) -> bytes:
        nonlocal taken
        data = read(size)
        taken += len(data)
        if len(data) < size:
            raise EOFError("a zstd frame is cut short")
        return data

    while magic := read(_MAGIC):
        taken += len(magic)
        if len(magic) < _MAGIC:
            raise EOFError("a zstd frame is cut short")
        if int.from_bytes(magic, "little") in _SKIPPED:
            left = int.from_bytes(more(4), "little")
            while left:
                left -= len(more(min(left, _PIECE)))
            continue
        head = magic + more(_LEAST_HEADER - _MAGIC)
        head += more(zstandard.frame_header_size(head) - len(head))
        frame: Any = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        # The header is judged before anything behind it is believed.
        frame.decompress(head)
        last = 0
        while not last:
            block = more(3)
            number = int.from_bytes(block, "little")
            last, kind, size = number & 1, number >> 1 & 3, number >> 3
            block += more(1 if kind == _RLE else size)
            if last and head[_MAGIC] & _CHECKSUM:
                block += more(4)
            content = frame.decompress(block)
            if content:
                yield content, taken
        if not frame.eof:
            raise zstandard.ZstdError("a zstd frame does not end with its last block")


def whole_zstd(data: bytes, most: int) -> bytes:
    """All frames of `data` as one; raises as `zstd_blocks`, and `ValueError` for more than `most` bytes."""
    parts, size = [], 0
    for content, _ in zstd_blocks(io.BytesIO(data).read):
        parts.append(content)
        size += len(content)
        if size > most:
            raise ValueError(f"it holds more than {most} bytes")
    return b"".join(parts)
