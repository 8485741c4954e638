"""A stream of bytes whose beginning can be looked at, and the same unpacked, as often as it was packed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from typing import IO, Any, Final, Protocol, cast

import zstandard

from include.errors import Terminal

__all__ = ["DAMAGE", "BinlogFileError", "BinlogInput", "Readable", "unpacked"]

DAMAGE: Final = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    tarfile.TarError,
    zipfile.BadZipFile,
)
"""What the readers of packed files raise for one that is damaged or cut short."""

_HEAD_BYTES: Final = 512
_PIECE: Final = 1 << 17
_WINDOW: Final = 1 << 27
_DEEPEST: Final = 4


class BinlogFileError(Terminal):
    """A file is no binlog, or damaged, or ends inside of an event; details name `file` and `byte` (unpacked)."""


class Readable(Protocol):
    """The least that a stream does: up to `size` bytes, b"" at the end only."""

    def read(self, size: int, /) -> bytes:
        """Blocks until there is something."""


class BinlogInput:
    """`head` are its first 512 bytes (less of a shorter one), `tail` the last ones read; both can still be read."""

    def __init__(self, stream: Readable, packed: bool = False) -> None:
        self.packed = packed
        self.tail = b""
        self._stream = stream
        self._ahead = b""
        self.head = self._ahead = self.read(_HEAD_BYTES)

    def read(self, size: int = -1, /) -> bytes:
        """`size` bytes, less at the end only."""
        if not self._ahead:
            # Nearly always all in one piece, which then need not be copied.
            data = self._stream.read(size)
            if len(data) == size:
                self.tail = (self.tail + data[-_HEAD_BYTES:])[-_HEAD_BYTES:]
                return data
            self._ahead = data
        pieces = [self._ahead[:size]]
        self._ahead = self._ahead[size:]
        left = size - len(pieces[0])
        while left > 0 and (piece := self._stream.read(left)):
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        self.tail = (self.tail + data[-_HEAD_BYTES:])[-_HEAD_BYTES:]
        return data

    def drain(self) -> None:
        """Read on to the end."""
        while self.read(_PIECE):
            pass


def unpacked(source: BinlogInput, place: str) -> BinlogInput:
    """The stream below all compression, told by first bytes; raises what `DAMAGE` lists for a damaged one."""
    for _ in range(_DEEPEST):
        head, stream = source.head, cast(IO[bytes], source)
        inner: Readable | None = None
        if head.startswith(b"\x1f\x8b"):
            inner = gzip.GzipFile(fileobj=stream, mode="rb")
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            inner = _Zstd(source)
        elif head.startswith(b"\xfd7zXZ\0"):
            inner = lzma.LZMAFile(stream)  # noqa: SIM115 - the caller closes what lies below
        elif head.startswith(b"BZh"):
            inner = bz2.BZ2File(stream)
        if inner is None:
            return source
        source = BinlogInput(inner, packed=True)
    raise BinlogFileError("packed too often", file=place, byte=0, allowed=_DEEPEST)


class _Zstd:
    """Unlike the library's own reader this one says when its input ends inside of a frame."""

    def __init__(self, source: BinlogInput) -> None:
        self._source = source
        self._machine: Any = None
        self._rest = b""
        self._out = b""

    def read(self, size: int, /) -> bytes:
        while not self._out:
            data = self._rest or self._source.read(_PIECE)
            self._rest = b""
            if not data:
                if self._machine is not None:
                    raise EOFError("zstd frame is cut short")
                return b""
            if self._machine is None:
                self._machine = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
            self._out = self._machine.decompress(data)
            if self._machine.eof:
                self._rest = self._machine.unused_data
                self._machine = None
        found, self._out = self._out[:size], self._out[size:]
        return found
