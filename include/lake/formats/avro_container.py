"""Avro object container files of Confluent-framed values: bodies are copied as they are, never written anew.

`refuses` reads each body once, as a body that is not what its schema says would spoil its whole block for readers.
The sync marker follows from topic id, partition and first offset; a file in which it happened to stand elsewhere gets
the next one. Keys, headers, offsets and timestamps are not kept.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, BinaryIO, Final, Literal

from pydantic import Field, model_validator

from include.errors import InvalidRecord, Terminal
from include.lake.formats.avro_blocks import read_bodies
from include.lake.formats.avro_schemas import SchemaLookup, WireSchemas
from include.lake.formats.port import ClosedFile, FileIdentity
from include.lake.formats.zstd_frame import zstd_frame, zstd_version
from include.lake.message import Message
from include.record.codec import frame
from include.settings.deployment import Strict

__all__ = ["SCHEMA_ID", "AvroContainer", "AvroContainerOptions", "sync_marker"]

SCHEMA_ID: Final = "lyrebird.schema_id"
"""Metadata of the file: the registry's id of its schema, in decimal."""

_FRAME: Final = 5
_MARKER: Final = 16
_LEVELS: Final = {"deflate": 6, "zstandard": 3}


class AvroContainerOptions(Strict):
    """The format as a deployment declares it. `level`: of deflate (6 when left out) and zstandard (3)."""

    schema_id: int | None = Field(default=None, ge=0, description="of all files; without it a folder each")
    codec: Literal["null", "deflate", "zstandard", "snappy"] = "null"
    """Of blocks."""
    level: int | None = Field(default=None, ge=1, le=9)
    """Of deflate (6 when left out) and zstandard (3)."""
    block_bytes: int = Field(default=256 << 10, ge=1, le=64 << 20)
    """Bytes that end a block."""

    @model_validator(mode="after")
    def _level_has_use(self) -> AvroContainerOptions:
        if self.level is not None and self.codec not in _LEVELS:
            raise ValueError(f"{self.codec} has no levels")
        return self


class AvroContainer:
    """The format; a `Format`. `lookup` is asked once for each schema."""

    def __init__(self, options: AvroContainerOptions, lookup: SchemaLookup) -> None:
        self.options = options
        self._schemas = WireSchemas(lookup, options.schema_id)

    @property
    def extension(self) -> str:
        """`.avro`."""
        return ".avro"

    @property
    def versions(self) -> dict[str, str]:
        """That of the codec's library."""
        match self.options.codec:
            case "deflate":
                return {"zlib": zlib.ZLIB_RUNTIME_VERSION}
            case "zstandard":
                return {"zstd": zstd_version()}
            case "snappy":
                return {"pyarrow": version("pyarrow")}
        return {}

    def names(self, message: Message) -> tuple[str, ...]:
        """The folder of the message's schema, to be put below its other names; none with `schema_id`."""
        return self._schemas.names(message)

    def refuses(self, message: Message) -> str:
        """Null values, values that are not framed or not what their schema says, other schemas than `schema_id`."""
        found = self._schemas.refused(message)
        return found if isinstance(found, str) else ""

    def open(self, stream: BinaryIO, identity: FileIdentity) -> _Writer:
        """Begin a file; `Terminal` when nothing tells its schema."""
        schema_id = self._schemas.of_file(identity)
        try:
            schema = self._schemas.source(schema_id)
        except InvalidRecord as error:
            raise Terminal(str(error), topic=identity.topic, schema_id=schema_id) from error
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        metadata = {"avro.codec": self.options.codec, "avro.schema": text, SCHEMA_ID: str(schema_id)}
        return _Writer(stream, identity, schema_id, _header(metadata), self.options)

    def read(self, stream: BinaryIO) -> Iterator[Message]:
        """The framed values of a file, without offsets (-1); `Terminal` naming the byte of a damage."""
        for schema_id, body in read_bodies(stream, SCHEMA_ID):
            yield Message(-1, None, frame(schema_id, body))


class _Writer:
    def __init__(
        self, stream: BinaryIO, identity: FileIdentity, schema_id: int, header: bytes, options: AvroContainerOptions
    ) -> None:
        self._stream = stream
        self._identity = identity
        self._frame = frame(schema_id, b"")
        self._compress = _compressor(options)
        self._limit = options.block_bytes
        self._marker = sync_marker(identity, 0)
        self._clashes = False
        self._sha256 = hashlib.sha256()
        self._written = 0
        self._before = b""
        self._marks: list[int] = []
        self._records = self._held = 0
        self._block = bytearray()
        self._out(header)

    @property
    def bytes_so_far(self) -> int:
        return self._written + len(self._block)

    def write(self, messages: Sequence[Message]) -> None:
        head, limit, block = self._frame, self._limit, self._block
        for message in messages:
            value = message.value
            if value is None or value[:_FRAME] != head:
                raise Terminal(
                    "a value of another schema came to the writer",
                    offset=message.offset,
                    expected=head.hex(),
                    got=None if value is None else value[:_FRAME].hex(),
                    fix="Ask `refuses` of each message first, and put it below the format's `names`.",
                )
            block += value[_FRAME:]
            self._held += 1
            if len(block) >= limit:
                self._flush()

    def close(self) -> ClosedFile:
        if self._held:
            self._flush()
        counter = 0
        while self._clashes:
            counter += 1
            self._mark_again(sync_marker(self._identity, counter))
        return ClosedFile(self._records, self._written, self._sha256.hexdigest())

    def _flush(self) -> None:
        data = self._compress(self._block)
        self._out(b"".join((_long(self._held), _long(len(data)), data)))
        self._records += self._held
        self._held = 0
        self._block.clear()

    def _out(self, data: bytes) -> None:
        """Write what comes before a marker, and the marker."""
        marked = data + self._marker
        self._stream.write(marked)
        self._look_at(marked)
        self._written += len(marked)
        self._marks.append(self._written)

    def _look_at(self, marked: bytes) -> None:
        self._sha256.update(marked)
        # The marker of this piece is its end: found any earlier it would split the file where no block begins.
        seen = self._before + marked
        self._clashes |= seen.find(self._marker) != len(seen) - _MARKER
        self._before = marked[1 - _MARKER :]

    def _mark_again(self, marker: bytes) -> None:
        self._marker, self._clashes, self._before = marker, False, b""
        self._sha256 = hashlib.sha256()
        begin = 0
        for end in self._marks:
            self._stream.seek(begin)
            piece = self._stream.read(end - begin - _MARKER)
            self._stream.write(marker)
            self._look_at(piece + marker)
            begin = end


def sync_marker(identity: FileIdentity, counter: int) -> bytes:
    """The marker of a file, the generation aside; `counter` is 0 unless the content holds those before."""
    text = f"avro {identity.topic_id} {identity.partition} {identity.first} {counter}"
    return hashlib.sha256(text.encode()).digest()[:_MARKER]


def _header(metadata: dict[str, str]) -> bytes:
    pairs = [_sized(part.encode()) for pair in sorted(metadata.items()) for part in pair]
    return b"".join((b"Obj\x01", _long(len(metadata)), *pairs, b"\0"))


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(n: int) -> bytes:
    """A number that is not negative, zigzag."""
    n <<= 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _compressor(options: AvroContainerOptions) -> Callable[[bytearray], Any]:
    level = options.level or _LEVELS.get(options.codec, 0)
    match options.codec:
        case "deflate":

            def deflate(block: bytearray) -> bytes:
                stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
                return stream.compress(block) + stream.flush()

            return deflate
        case "zstandard":
            return lambda block: zstd_frame(block, level)
        case "snappy":
            from pyarrow.lib import Codec

            codec = Codec("snappy")
            return lambda block: codec.compress(bytes(block), asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
    return bytes
