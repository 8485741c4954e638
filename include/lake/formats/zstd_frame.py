"""One zstd frame of some bytes, equal bytes for equal input whatever was compressed before."""

from __future__ import annotations

import threading

import zstandard

__all__ = ["zstd_frame", "zstd_version"]


class _Compressors(threading.local):
    """One for each level and thread: a new one for each frame takes longer than the frame, and holds a megabyte."""

    def __init__(self) -> None:
        self.by_level: dict[int, zstandard.ZstdCompressor] = {}


_COMPRESSORS = _Compressors()


def zstd_frame(data: bytes | bytearray, level: int) -> bytes:
    """A frame with its content's size and checksum."""
    compressor = _COMPRESSORS.by_level.get(level)
    if compressor is None:
        compressor = _COMPRESSORS.by_level[level] = zstandard.ZstdCompressor(level, write_checksum=True)
    return compressor.compress(data)


def zstd_version() -> str:
    """Of the library that decides on the bytes."""
    return ".".join(map(str, zstandard.ZSTD_VERSION))
