"""A stream of bytes whose beginning can be looked at, and the same unpacked, as often as it was packed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from typing import IO, Final, Protocol, cast

import zstandard

from include.errors import Terminal
from include.zstd_blocks import zstd_blocks

__all__ = ["DAMAGE", "BinlogFileError", "BinlogInput", "ByteReader", "unpacked"]

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
_XZ_MEMORY: Final = 1 << 28
_DEEPEST: Final = 4


class BinlogFileError(Terminal):
    """A file is no binlog, or damaged, or ends inside of an event; details name `file` and `byte` (unpacked)."""


class ByteReader(Protocol):
    """The least that a stream does: up to `size` bytes, b"" at the end only."""

    def read(self, size: int, /) -> bytes:
        """Blocks until there is something."""


class BinlogInput:
    """`head` are its first 512 bytes (less of a shorter one), `tail` the last ones read; both can still be read."""

    def __init__(self, stream: ByteReader, packed: bool = False) -> None:
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
    """The stream below all compression, told by first bytes; raises what `DAMAGE` lists for a damaged one.

    Memory holds some hundred KiB of content and what the algorithm needs, 256 MiB at most, whatever the bytes ask for.
    """
    for _ in range(_DEEPEST):
        head, stream = source.head, cast(IO[bytes], source)
        inner: ByteReader | None = None
        if head.startswith(b"\x1f\x8b"):
            inner = gzip.GzipFile(fileobj=stream, mode="rb")
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            inner = _Zstd(source)
        elif head.startswith(b"\xfd7zXZ\0"):
            inner = _Xz(source, place)
        elif head.startswith(b"BZh"):
            inner = bz2.BZ2File(stream)
        if inner is None:
            return source
        source = BinlogInput(inner, packed=True)
    raise BinlogFileError("packed too often", file=place, byte=0, allowed=_DEEPEST)


class _Zstd:
    def __init__(self, source: BinlogInput) -> None:
        self._blocks = zstd_blocks(source.read)
        self._rest = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, (b"", 0))[0])
        found, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return found


class _Xz:
    """Unlike the library's own reader this one has a bound for memory, which the file asks for."""

    def __init__(self, source: BinlogInput, place: str) -> None:
        self._source = source
        self._place = place
        self._machine = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)

    def read(self, size: int, /) -> bytes:
        unpacked = b""
        while not unpacked:
            data = b""
            if self._machine.eof:
                data = self._machine.unused_data.lstrip(b"\0")
                # Zeros may stand behind a stream, and then another one.
                while not data and (piece := self._source.read(_PIECE)):
                    data = piece.lstrip(b"\0")
                if not data:
                    return b""
                self._machine = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
            elif self._machine.needs_input:
                data = self._source.read(_PIECE)
                if not data:
                    raise EOFError("xz stream is cut short")
            unpacked = self._unpacked(data, size)
        return unpacked

    def _unpacked(self, data: bytes, size: int) -> bytes:
        try:
            return self._machine.decompress(data, size)
        except lzma.LZMAError as error:
            # The library has one class for all that is wrong.
            if "emory usage limit" not in str(error):
                raise
            raise BinlogFileError(
                "unpacking the xz file takes more memory than is allowed",
                file=self._place,
                byte=0,
                allowed=_XZ_MEMORY,
                fix="Unpack it by `xz -d`, or pack it by `xz -9` at most, which takes 65 MiB.",
            ) from error
