"""Reads any SequenceFile whose keys and values are LongWritable, BytesWritable or Text, front to back.

What cannot be right ends the reading with `Terminal` that names the byte; all that was whole before it is given first.
With block compression what is whole is a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import BinaryIO, Final

from include.errors import Terminal
from include.lake.formats.sequence.codecs import DAMAGED, codec_of_class
from include.lake.formats.sequence.sequence_header import (
    BYTES_WRITABLE,
    ESCAPE,
    LONG_WRITABLE,
    MAGIC,
    SYNC_BYTES,
    TEXT,
    SequenceCompression,
    SequenceHeader,
)

__all__ = ["SequenceReader"]

_READ_BYTES: Final = 1 << 18
_LENGTH: Final = Struct(">i")
_LENGTHS: Final = Struct(">ii")
_LONG: Final = Struct(">q")
_MOST_METADATA: Final = 1 << 16
_MARKER_BYTES: Final = 4 + SYNC_BYTES


class _Damaged(Exception):
    """What is wrong; its byte is where the reader stands."""


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """A VInt and where it ends; `IndexError` when it is not whole."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    if first >= 0x90:
        return first - 0x100, at + 1
    size = 144 - first if first >= 0x88 else 136 - first
    end = at + 1 + size
    if end > len(data):
        raise IndexError
    n = int.from_bytes(data[at + 1 : end], "big")
    return (n if first >= 0x88 else ~n), end


def _vints(data: bytes, records: int) -> list[int]:
    numbers: list[int] = []
    offset = 0
    try:
        while len(numbers) < records:
            n, offset = _vint(data, offset)
            numbers.append(n)
    except IndexError:
        raise _Damaged("a block has fewer lengths than records") from None
    if offset != len(data) or min(numbers, default=0) < 0:
        raise _Damaged("a block has lengths that are none, or more than records")
    return numbers


def _long(data: bytes) -> int:
    if len(data) != _LONG.size:
        raise _Damaged("a LongWritable has not eight bytes")
    return int(_LONG.unpack(data)[0])


def _bytes(data: bytes) -> bytes:
    if len(data) < _LENGTH.size or _LENGTH.unpack_from(data)[0] != len(data) - _LENGTH.size:
        raise _Damaged("a BytesWritable has not the length that it says")
    return data[4:]


def _text(data: bytes) -> bytes:
    try:
        size, offset = _vint(data, 0)
    except IndexError:
        raise _Damaged("a Text has no length") from None
    if size != len(data) - offset:
        raise _Damaged("a Text has not the length that it says")
    return data[offset:]


_CONTENTS: Final[dict[str, Callable[[bytes], int | bytes]]] = {
    BYTES_WRITABLE: _bytes,
    LONG_WRITABLE: _long,
    TEXT: _text,
}


class SequenceReader:
    """One file, from the place where its stream stands.

    Attributes:
        header: read at once; `Terminal` when there is none that is understood.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._base = 0
        self._start = 0
        try:
            self.header = self._header()
        except _Damaged as reason:
            self._start = self._base + self._at
            raise self.damaged(str(reason)) from None
        for name in (self.header.key_class, self.header.value_class):
            if name not in _CONTENTS:
                raise Terminal(
                    "a SequenceFile of these classes cannot be read here",
                    got=name,
                    allowed=sorted(_CONTENTS),
                    fix="Read it with Hadoop, where this class is at home.",
                )

    @property
    def position(self) -> int:
        """Byte of the file where the record that was given last begins; with block compression its block."""
        return self._start

    def damaged(self, reason: str) -> Terminal:
        """The error for what is at `position`."""
        return Terminal(
            f"this is no whole SequenceFile: {reason}",
            byte=self.position,
            fix="Compare its bytes with what the commit record or the sender says, and fetch or make it again.",
        )

    def records(self) -> Iterator[tuple[int | bytes, int | bytes]]:
        """Key and value of each record: numbers of LongWritable, the content of BytesWritable, UTF-8 of Text."""
        key_content, value_content = _CONTENTS[self.header.key_class], _CONTENTS[self.header.value_class]
        pairs = self._blocks() if self.header.compression == "BLOCK" else self._pairs()
        try:
            for key, value in pairs:
                yield key_content(key), value_content(value)
        except _Damaged as reason:
            raise self.damaged(str(reason)) from None

    def _has(self, size: int) -> bool:
        """Whether so many bytes are there; reads on until they are. Moves what is held to the front."""
        data = self._data
        missing = size - (len(data) - self._at)
        if missing <= 0:
            return True
        pieces = [data[self._at :]]
        while missing > 0:
            # By pieces, as a damaged length asks for more than there is or memory has.
            piece = self._stream.read(_READ_BYTES)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        self._base += self._at
        self._at = 0
        self._data = b"".join(pieces)
        return missing <= 0

    def _take(self, size: int) -> bytes:
        if size < 0 or not self._has(size):
            raise _Damaged("it ends too early, or a length is none")
        self._at += size
        return self._data[self._at - size : self._at]

    def _take_vint(self) -> int:
        self._has(9)
        try:
            n, self._at = _vint(self._data, self._at)
        except IndexError:
            raise _Damaged("it ends inside a length") from None
        return n

    def _take_text(self) -> str:
        try:
            return self._take(self._take_vint()).decode()
        except UnicodeDecodeError:
            raise _Damaged("a name in its header is no UTF-8") from None

    def _header(self) -> SequenceHeader:
        if not self._has(4) or self._data[:3] != MAGIC:
            raise _Damaged("it does not begin as one")
        version = self._data[3]
        if version not in (4, 5, 6):
            raise _Damaged(f"it has version {version}, and 4 to 6 are read here")
        self._at = 4
        key_class, value_class = self._take_text(), self._take_text()
        flags = self._take(2)
        if flags not in (b"\0\0", b"\1\0", b"\1\1"):
            raise _Damaged("it is compressed in no known way")
        compression: SequenceCompression = "BLOCK" if flags[1] else "RECORD" if flags[0] else "NONE"
        codec = ""
        if flags[0]:
            codec = self._take_text() if version > 4 else "org.apache.hadoop.io.compress.DefaultCodec"
        metadata = {}
        if version > 5:
            entries = _LENGTH.unpack(self._take(4))[0]
            if not 0 <= entries <= _MOST_METADATA:
                raise _Damaged("its metadata have no length")
            for _ in range(entries):
                name = self._take_text()
                metadata[name] = self._take_text()
        return SequenceHeader(key_class, value_class, compression, codec, self._take(SYNC_BYTES), metadata, version)

    def _marker(self) -> bool:
        """Past a marker, where one stands."""
        if self._data[self._at : self._at + 4] != ESCAPE:
            return False
        if not self._has(_MARKER_BYTES):
            raise _Damaged("it ends inside a sync marker")
        if self._data[self._at + 4 : self._at + _MARKER_BYTES] != self.header.sync:
            raise _Damaged("a sync marker is not the file's")
        self._at += _MARKER_BYTES
        return True

    def _pairs(self) -> Iterator[tuple[bytes, bytes]]:
        decompress = codec_of_class(self.header.codec).decompress if self.header.codec else None
        lengths = _LENGTHS.unpack_from
        while self._has(4):
            self._start = self._base + self._at
            if self._marker():
                continue
            if not self._has(8):
                raise _Damaged("it ends inside a record's lengths")
            size, key_bytes = lengths(self._data, self._at)
            if not 0 <= key_bytes <= size:
                raise _Damaged("a record's lengths are none")
            if not self._has(8 + size):
                raise _Damaged("it ends inside a record")
            data, begin = self._data, self._at + 8
            middle = begin + key_bytes
            self._at = begin + size
            value = data[middle : begin + size]
            if decompress:
                try:
                    value = decompress(value)
                except DAMAGED as error:
                    raise _Damaged(f"a value cannot be decompressed, {error}") from None
            yield data[begin:middle], value
        self._end()

    def _blocks(self) -> Iterator[tuple[bytes, bytes]]:
        decompress = codec_of_class(self.header.codec).decompress
        while self._has(4):
            self._start = self._base + self._at
            if not self._marker():
                raise _Damaged("a block does not begin with a sync marker")
            self._has(4)
            # A marker with nothing behind it, or one more, is what a writer's `sync()` leaves.
            if self._at < len(self._data) and self._data[self._at : self._at + 4] != ESCAPE:
                yield from zip(*self._block(decompress), strict=True)
        self._end()

    def _end(self) -> None:
        self._start = self._base + self._at
        if self._at < len(self._data):
            raise _Damaged("it ends inside a length")

    def _block(self, decompress: Callable[[bytes], bytes]) -> tuple[list[bytes], list[bytes]]:
        records = self._take_vint()
        parts = []
        for _ in range(4):
            data = self._take(self._take_vint())
            try:
                parts.append(decompress(data))
            except DAMAGED as error:
                raise _Damaged(f"a block cannot be decompressed, {error}") from None
        return _split(parts[1], _vints(parts[0], records)), _split(parts[3], _vints(parts[2], records))


def _split(data: bytes, lengths: list[int]) -> list[bytes]:
    if sum(lengths) != len(data):
        raise _Damaged("a block's lengths and its content do not agree")
    found, at = [], 0
    for size in lengths:
        found.append(data[at : at + size])
        at += size
    return found
