"""Reads Avro object container files, whoever wrote them; the lake's back into the bodies that they were made of."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar

from include.errors import Terminal
from include.lake.formats.avro_schemas import plain_schema
from include.lake.formats.unpacking import MOST_BYTES, bunzip, inflate, unsnap, unxz, unzstd
from include.record.codec import DatumReader

__all__ = ["AvroFile", "read_bodies"]

_MAGIC: Final = b"Obj\x01"
_MARKER: Final = 16
T = TypeVar("T")
# A block of values without bytes could have as many as its count says.
_MOST_EMPTY: Final = 1 << 20


def read_bodies(stream: BinaryIO, schema_id_name: str) -> Iterator[tuple[int, bytes]]:
    """Id of the file's schema and body of each value; blocks before a damage come before its error.

    `schema_id_name` is the metadata that holds the id. Raises `Terminal` naming the byte.
    """
    file = AvroFile(stream)
    try:
        schema_id = int(file.metadata[schema_id_name])
    except (KeyError, ValueError) as error:
        raise file.damaged(f"metadata of an Avro file that is not ours: {error!r}", len(_MAGIC)) from error
    for body in file.bodies():
        yield schema_id, body


class AvroFile:
    """An Avro container file of anybody's, read at once up to its first block.

    Attributes:
        metadata: of its header.
        codec: its name.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Raises `Terminal` where there is no such file, or its schema is none."""
        self._source = source = _Source(stream)
        self.damaged = source.damaged
        if source.take(len(_MAGIC)) != _MAGIC:
            raise source.damaged("no Avro container file", 0)
        self.metadata: dict[str, bytes] = dict(_pairs(source))
        self._marker = source.take(_MARKER)
        try:
            self._read = DatumReader(plain_schema(json.loads(self.metadata["avro.schema"])))
            self.codec = self.metadata.get("avro.codec", b"null").decode()
        except Exception as error:
            raise source.damaged(f"metadata of an Avro file that cannot be: {error!r}", len(_MAGIC)) from error

    def values(self) -> Iterator[Any]:
        """Each value; raises `Terminal` naming the byte of a damaged block, after all blocks before."""
        return self._each(lambda value, _: value)

    def bodies(self) -> Iterator[bytes]:
        """The bytes of each value; raises as `values`."""
        return self._each(lambda _, body: body)

    def _each(self, part: Callable[[Any, bytes], T]) -> Iterator[T]:
        source = self._source
        while not source.ended:
            begin = source.place
            count, size = source.long(), source.long()
            data = source.take(size)
            if source.take(_MARKER) != self._marker:
                raise source.damaged("a block does not end with the marker", source.place - _MARKER)
            try:
                found = [part(*each) for each in _values(_decompressed(data, self.codec), count, self._read)]
            except Exception as error:
                raise source.damaged(f"a block is damaged: {error!r}", begin) from error
            yield from found


class _Source:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.place = 0
        self._next = stream.read(1)

    @property
    def ended(self) -> bool:
        return not self._next

    def take(self, size: int) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise self.damaged("a length that nothing has", self.place)
        if size == 0:
            return b""
        data = self._next + self._stream.read(size - 1)
        if len(data) < size:
            raise self.damaged("Avro file ends too early", self.place + len(data))
        self.place += size
        self._next = self._stream.read(1)
        return data

    def long(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise self.damaged("a number longer than 64 bits", self.place)

    def damaged(self, message: str, byte: int) -> Terminal:
        return Terminal(message, byte=byte, fix="Compare its sha256 with its commit: `lyrebird audit chain --deep`.")


def _pairs(source: _Source) -> Iterator[tuple[str, bytes]]:
    while count := source.long():
        if count < 0:
            # A negative count is followed by the size of its pairs.
            count, _ = -count, source.long()
        for _ in range(count):
            name = source.take(source.long())
            yield name.decode("utf-8", "replace"), source.take(source.long())


def _decompressed(data: bytes, codec: str) -> bytes:
    match codec:
        case "null":
            return data
        case "deflate":
            return inflate(data, MOST_BYTES, -zlib.MAX_WBITS)
        case "zstandard":
            return unzstd(data, MOST_BYTES)
        case "bzip2":
            return bunzip(data, MOST_BYTES)
        case "xz":
            return unxz(data, MOST_BYTES)
        case "snappy":
            content = unsnap(data[:-4], MOST_BYTES)
            if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
                raise ValueError("checksum")
            return content
    raise ValueError(f"codec {codec}")


def _values(block: bytes, count: int, read: DatumReader) -> Iterator[tuple[Any, bytes]]:
    """Each value of a block with its bytes."""
    if count > len(block) + _MOST_EMPTY:
        raise ValueError("more values than bytes")
    stream, begin = io.BytesIO(block), 0
    for _ in range(count):
        value = read.next(stream)
        end = stream.tell()
        yield value, block[begin:end]
        begin = end
    if begin != len(block):
        raise ValueError("more bytes than values")
