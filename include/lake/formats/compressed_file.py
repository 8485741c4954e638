"""A file of lines, plain or compressed as a whole, whose bytes follow from its content alone.

Compressors see pieces of one size however the content was cut into writes, as where they end a block may depend on it.
A gzip file is one member, whose header names no time, no file and no operating system. A zstd file is a frame with its
checksum for each piece: a compressor for the whole of it holds a megabyte, too much for a thousand open files.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal, Protocol

import zstandard
from pydantic import Field, model_validator

from include.errors import Terminal
from include.lake.formats.port import ClosedFile
from include.lake.formats.unpacking import MOST_BYTES
from include.lake.formats.zstd_frame import zstd_frame, zstd_version
from include.settings.deployment import Strict
from include.zstd_blocks import zstd_blocks

__all__ = ["CompressedFile", "Compression", "read_lines"]

_ZSTD_PIECE: Final = 256 << 10
_GZIP_PIECE: Final = 64 << 10
_LINES_READ: Final = 256 << 10
_READ: Final = 16 << 10
_GZIP_HEADER: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_LEVELS: Final = {"none": (0, 0, 0), "gzip": (1, 9, 6), "zstd": (1, 19, 3)}
_EXTENSIONS: Final = {"none": "", "gzip": ".gz", "zstd": ".zst"}


class Compression(Strict):
    """How a whole file is compressed. `level`: gzip 1-9 (6 when left out), zstd 1-19 (3 when left out)."""

    codec: Literal["none", "gzip", "zstd"] = "none"
    """Of the file."""
    level: int = Field(default=0, ge=0)
    """gzip 1 to 9, zstd 1 to 19; 0: 6 and 3."""

    @model_validator(mode="after")
    def _level_exists(self) -> Compression:
        least, greatest, _ = _LEVELS[self.codec]
        if self.level and not least <= self.level <= greatest:
            raise ValueError(f"{self.codec} has levels {least} to {greatest}, not {self.level}")
        return self

    @property
    def extension(self) -> str:
        """What it adds to a file's extension."""
        return _EXTENSIONS[self.codec]

    @property
    def versions(self) -> dict[str, str]:
        """Libraries whose version decides on bytes."""
        if self.codec == "gzip":
            return {"zlib": zlib.ZLIB_RUNTIME_VERSION}
        return {"zstd": zstd_version()} if self.codec == "zstd" else {}

    def compressor(self) -> _Compressor | None:
        """One for a new file; None where there is nothing to do."""
        level = self.level or _LEVELS[self.codec][2]
        if self.codec == "gzip":
            return _Gzip(level)
        return _Zstd(level) if self.codec == "zstd" else None


class _Compressor(Protocol):
    piece: int

    def compress(self, data: Any, /) -> bytes:
        """Add `data`; what can be written already."""

    def flush(self) -> bytes:
        """The rest of the file."""


class _Gzip:
    piece = _GZIP_PIECE

    def __init__(self, level: int) -> None:
        self._deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._head, self._crc, self._size = _GZIP_HEADER, 0, 0

    def compress(self, data: bytes) -> bytes:
        self._crc = zlib.crc32(data, self._crc)
        self._size += len(data)
        head, self._head = self._head, b""
        return head + self._deflate.compress(data)

    def flush(self) -> bytes:
        return self._head + self._deflate.flush() + struct.pack("<II", self._crc, self._size & 0xFFFFFFFF)


class _Zstd:
    piece = _ZSTD_PIECE

    def __init__(self, level: int) -> None:
        self._level = level
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        if not data and self._begun:
            return b""
        self._begun = True
        return zstd_frame(data, self._level)

    def flush(self) -> bytes:
        return b""


class CompressedFile:
    """Takes the content of one file in any pieces, compresses, hashes and writes it."""

    def __init__(self, stream: BinaryIO, compression: Compression) -> None:
        self._stream = stream
        self._compressor = compression.compressor()
        self._sha256 = hashlib.sha256()
        self._written = 0
        self._most = 0
        self._waiting = bytearray()

    @property
    def bytes_so_far(self) -> int:
        """Bytes written, and those that wait to be compressed at their full length; never shrinks."""
        self._most = max(self._most, self._written + len(self._waiting))
        return self._most

    def write(self, content: bytes | bytearray) -> None:
        """Add content."""
        if self._compressor is None:
            self._out(content)
            return
        waiting, piece = self._waiting, self._compressor.piece
        waiting += content
        if len(waiting) >= piece:
            end = len(waiting) - len(waiting) % piece
            for at in range(0, end, piece):
                self._out(self._compressor.compress(bytes(waiting[at : at + piece])))
            del waiting[:end]

    def close(self, records: int) -> ClosedFile:
        """Write what is left; the stream stays open."""
        if self._compressor is not None:
            self._out(self._compressor.compress(bytes(self._waiting)) + self._compressor.flush())
            self._waiting.clear()
        return ClosedFile(records, self._written, self._sha256.hexdigest())

    def _out(self, data: bytes | bytearray) -> None:
        self._stream.write(data)
        self._sha256.update(data)
        self._written += len(data)


def read_lines(stream: BinaryIO, compression: Compression) -> Iterator[bytes]:
    r"""The lines of a finished file, each without its `\n`; all lines before a damage come before the error.

    Memory holds a line and a piece of the file, unpacked, however well it was packed.

    Raises:
        Terminal: the file is cut off or changed, or a line has more than `MOST_BYTES`; details name the `byte`, of the
            text when it ends within a line.
    """
    offset, begun, size = 0, [], 0
    for content in _content(stream, compression):
        first, *lines = content.split(b"\n")
        begun.append(first)
        size += len(first)
        if size > MOST_BYTES:
            raise _damaged("file has a line that nothing has", offset, allowed=MOST_BYTES)
        if not lines:
            continue
        yield b"".join(begun)
        offset += size + 1
        rest = lines.pop()
        for line in lines:
            yield line
            offset += len(line) + 1
        begun, size = [rest], len(rest)
    if size:
        raise _damaged("file ends within a line", offset)


def _content(stream: BinaryIO, compression: Compression) -> Iterator[bytes]:
    match compression.codec:
        case "none":
            while data := stream.read(_LINES_READ):
                yield data
        case "gzip":
            yield from _gunzipped(stream)
        case "zstd":
            yield from _unzstd(stream)


def _gunzipped(stream: BinaryIO) -> Iterator[bytes]:
    machine, offset = zlib.decompressobj(zlib.MAX_WBITS | 16), 0
    while data := stream.read(_READ):
        while data:
            if machine.eof:
                raise _damaged("file goes on after its end", offset)
            try:
                content = machine.decompress(data, _LINES_READ)
            except zlib.error as error:
                raise _damaged("compressed file is damaged", offset, cause=str(error)) from error
            yield content
            left = machine.unused_data or machine.unconsumed_tail
            offset += len(data) - len(left)
            data = left
    while not machine.eof:
        # What the last bytes stand for may be more than a piece.
        content = machine.decompress(b"", _LINES_READ)
        if not content:
            raise _damaged("compressed file ends too early", offset)
        yield content


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    offset, size = 0, 0

    def read(most: int) -> bytes:
        nonlocal size
        data = stream.read(most)
        size += len(data)
        return data

    try:
        for content, offset in zstd_blocks(read):  # noqa: B007 - the place of an error
            yield content
    except EOFError as error:
        raise _damaged("compressed file ends too early", offset) from error
    except zstandard.ZstdError as error:
        raise _damaged("compressed file is damaged", offset, cause=str(error)) from error
    if not size:
        raise _damaged("compressed file ends too early", offset)


def _damaged(message: str, byte: int, **details: str | int) -> Terminal:
    fix = "Compare its sha256 with its commit: `lyrebird audit chain --deep`."
    return Terminal(message, byte=byte, **details, fix=fix)
