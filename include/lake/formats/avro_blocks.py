"""Reads Avro object container files back into the bodies that they were made of."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import fastavro
import zstandard

from include.errors import Terminal
from include.lake.formats.avro_schemas import plain_schema

__all__ = ["read_bodies"]

_MAGIC: Final = b"Obj\x01"
_MARKER: Final = 16
# Longer ones are damage: no writer makes blocks of this size.
_MOST: Final = 1 << 30


def read_bodies(stream: BinaryIO, schema_id_name: str) -> Iterator[tuple[int, bytes]]:
    """Id of the file's schema and body of each value; blocks before a damage come before its error.

    `schema_id_name` is the metadata that holds the id. Raises `Terminal` naming the byte.
    """
    source = _Source(stream)
    if source.take(len(_MAGIC)) != _MAGIC:
        raise source.damaged("no Avro container file", 0)
    metadata = dict(_pairs(source))
    marker = source.take(_MARKER)
    try:
        schema = fastavro.parse_schema(plain_schema(json.loads(metadata["avro.schema"])))
        schema_id = int(metadata[schema_id_name])
        codec = metadata.get("avro.codec", b"null").decode()
    except (KeyError, ValueError, fastavro.schema.SchemaParseException) as error:
        raise source.damaged(f"metadata of an Avro file that is not ours: {error!r}", len(_MAGIC)) from error
    while not source.ended:
        begin = source.place
        count, size = source.long(), source.long()
        data = source.take(size)
        if source.take(_MARKER) != marker:
            raise source.damaged("a block does not end with the marker", source.place - _MARKER)
        try:
            yield from [(schema_id, body) for body in _bodies(_decompressed(data, codec), count, schema)]
        except Exception as error:
            if isinstance(error, Terminal):
                raise
            raise source.damaged(f"a block is damaged: {error!r}", begin) from error


class _Source:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.place = 0
        self._next = stream.read(1)

    @property
    def ended(self) -> bool:
        return not self._next

    def take(self, size: int) -> bytes:
        if not 0 <= size <= _MOST:
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
            return zlib.decompress(data, -zlib.MAX_WBITS)
        case "zstandard":
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
        case "snappy":
            return _unsnapped(data)
    raise ValueError(f"codec {codec}")


def _unsnapped(data: bytes) -> bytes:
    from pyarrow.lib import Codec

    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    content: Any = Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(data[-4:], "big"):
        raise ValueError("checksum")
    return bytes(content)


def _bodies(block: bytes, count: int, schema: Any) -> list[bytes]:
    stream, bodies, begin = io.BytesIO(block), [], 0
    for _ in range(count):
        fastavro.schemaless_reader(stream, schema, None)
        end = stream.tell()
        bodies.append(block[begin:end])
        begin = end
    if begin != len(block):
        raise ValueError("more bytes than values")
    return bodies
