"""Hadoop SequenceFiles as a format of the lake.

`offset` and `message_pack` are Secor's layouts and keep what those keep; `verbatim` keeps all of a message. Secor
without a codec writes RECORD with zlib, and BLOCK with one.

With BLOCK an open file holds up to `block_bytes` back: with many directories to a topic-partition make it smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import BinaryIO, Final, Literal, Self, cast

from pydantic import Field, model_validator

from include.errors import Terminal
from include.lake.formats.port import FileIdentity, FileWriter
from include.lake.formats.sequence.codecs import Codec, CodecName, codec
from include.lake.formats.sequence.key_layout import KeyLayout, NullValue, OffsetKey
from include.lake.formats.sequence.message_pack_key import MessagePackKey
from include.lake.formats.sequence.sequence_header import (
    BYTES_WRITABLE,
    LONG_WRITABLE,
    SequenceCompression,
    SequenceHeader,
)
from include.lake.formats.sequence.sequence_reader import SequenceReader
from include.lake.formats.sequence.sequence_writer import BLOCK_BYTES, BlockWriter, RecordWriter, sync_markers
from include.lake.formats.sequence.verbatim import PROFILE, VerbatimKey
from include.lake.formats.unpacking import MOST_BYTES
from include.lake.message import Message
from include.settings.deployment import Strict

__all__ = ["KeyLayoutName", "SequenceFile", "layout_of", "read_messages"]

KeyLayoutName = Literal["offset", "message_pack", "verbatim"]
"""offset: LongWritable; message_pack: {1: offset, 2: key}; verbatim: all of a message."""

_EXTENSION: Final = r"^(\.[A-Za-z0-9]+)*$"


class SequenceFile(Strict):
    """The format with its configuration; `include.lake.formats.port.Format`."""

    layout: KeyLayoutName = "message_pack"
    """What keys hold."""
    timestamp: bool = False
    """`message_pack` only: keys hold the timestamp too, as later Secors write it."""
    null_value: NullValue = "refuse"
    """Not with `verbatim`: what becomes of a null value."""
    compression: SequenceCompression = "NONE"
    """NONE, RECORD or BLOCK."""
    codec: CodecName = "zlib"
    """Not with NONE. `zstd` needs readers with native libhadoop, which the PySpark wheel has not."""
    level: int | None = None
    """The codec's level (default: the codec's own); not with snappy and lz4."""
    block_bytes: int = Field(default=BLOCK_BYTES, ge=1, le=MOST_BYTES >> 1)
    """BLOCK only: bytes of keys and values that end a block."""
    extension: str = Field(default="", pattern=_EXTENSION, max_length=32)
    """What object names end in."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = self.model_fields_set
        if self.timestamp and self.layout != "message_pack":
            raise ValueError("timestamp belongs to the layout message_pack")
        if "null_value" in given and self.layout == "verbatim":
            raise ValueError("the layout verbatim keeps null values: leave null_value out")
        if self.compression == "NONE" and given & {"codec", "level"}:
            raise ValueError("codec and level belong to the compressions RECORD and BLOCK")
        if self.compression != "BLOCK" and "block_bytes" in given:
            raise ValueError("block_bytes belongs to the compression BLOCK")
        if self.compression != "NONE":
            # Made once, so that a level that the codec has not is refused with the deployment file.
            codec(self.codec, self.level)
        return self

    @property
    def versions(self) -> dict[str, str]:
        """Those of the codec's libraries; none without compression."""
        made = self._codec()
        return dict(made.versions) if made else {}

    def names(self, _message: Message) -> tuple[str, ...]:
        """None: all messages share a file."""
        return ()

    def refuses(self, message: Message) -> str:
        """A null value where the layout has no place for it and it is not stored as empty."""
        return self._layout.refuses(message)

    def open(self, stream: BinaryIO, identity: FileIdentity) -> FileWriter:
        """Begin a file at the start of an empty stream that can be read and written at any place."""
        return self.open_with(stream, sync_markers(identity))

    def open_with(self, stream: BinaryIO, markers: Iterator[bytes]) -> FileWriter:
        """Begin a file whose sync marker is the first of `markers` that its body does not hold by itself."""
        made = self._codec()
        if made and self.compression == "BLOCK":
            return BlockWriter(stream, self._layout, markers, made, self.block_bytes)
        return RecordWriter(stream, self._layout, markers, made)

    def read(self, stream: BinaryIO) -> Iterator[Message]:
        """The messages of any SequenceFile of a known layout, whatever this configuration is; as `read_messages`."""
        return read_messages(SequenceReader(stream))

    def _codec(self) -> Codec | None:
        return None if self.compression == "NONE" else codec(self.codec, self.level)

    @cached_property
    def _layout(self) -> KeyLayout:
        if self.layout == "offset":
            return OffsetKey(self.null_value)
        return VerbatimKey() if self.layout == "verbatim" else MessagePackKey(self.timestamp, self.null_value)


def layout_of(header: SequenceHeader) -> KeyLayout:
    """The layout that a file has by its header; `Terminal` when it is none of these."""
    if header.value_class == BYTES_WRITABLE:
        if header.metadata.items() >= PROFILE.items():
            return VerbatimKey()
        if "profile" not in header.metadata and header.key_class == LONG_WRITABLE:
            return OffsetKey()
        if "profile" not in header.metadata and header.key_class == BYTES_WRITABLE:
            return MessagePackKey()
    raise Terminal(
        "a SequenceFile of this kind holds no messages that are known here",
        key_class=header.key_class,
        value_class=header.value_class,
        profile=header.metadata.get("profile", ""),
        allowed=sorted(PROFILE.values()),
        fix="Read its keys and values as they are, or read it with the release that wrote it.",
    )


def read_messages(reader: SequenceReader) -> Iterator[Message]:
    """The messages of a file whose layout its header tells; `Terminal` that names the byte for what is none."""
    message = layout_of(reader.header).message
    for key, value in reader.records():
        try:
            # Its values are BytesWritable, or it would have no layout.
            made = message(key, cast("bytes", value))
        except ValueError as reason:
            raise reader.damaged(str(reason)) from None
        yield made
