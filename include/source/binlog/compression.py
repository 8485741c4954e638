"""Compressed events: MariaDB's log_bin_compress, MySQL's binlog_transaction_compression.

Both say how large their content is; not one byte more is ever made of them, whatever the compressed bytes hold.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import zstandard

from include.source.binlog.body import BodyReader
from include.source.binlog.event_type import KINDS, EventType
from include.source.binlog.reader import Event

__all__ = ["inflate", "payload_events"]

_HEADER: Final = struct.Struct("<IBIIIH")
_ZSTD, _PLAIN = 0, 255
# The highest level of zstd that a server can be set to uses windows of 128 MiB.
_WINDOW: Final = 1 << 27
_PIECE: Final = 1 << 18
_INNER: Final = frozenset(
    {
        EventType.QUERY,
        EventType.XID,
        EventType.TABLE_MAP,
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.IGNORABLE,
        EventType.ROWS_QUERY,
        EventType.WRITE_ROWS_V2,
        EventType.UPDATE_ROWS_V2,
        EventType.DELETE_ROWS_V2,
        EventType.XA_PREPARE,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)


def inflate(reader: BodyReader) -> bytes:
    """Inflates the rest of the body, in MariaDB's form: 0x80 | algorithm << 4 | n, size of n bytes, zlib.

    Raises `Terminal` for another algorithm, or content of another size than it says.
    """
    head = reader.integer(1)
    width = head & 0x07
    if head & 0xF0 != 0x80 or not 1 <= width <= 4:
        raise reader.cut("compressed in a way that is not known")
    size = int.from_bytes(reader.take(width), "big")
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(reader.rest(), size + 1)
    except zlib.error as broken:
        raise reader.cut("its compressed content is broken") from broken
    if len(content) != size or not machine.eof or machine.unused_data:
        raise reader.cut("its content has another size than it says")
    return content


def payload_events(event: Event) -> Iterator[Event]:
    """The events inside of a TRANSACTION_PAYLOAD, one by one, each with the outer one's position.

    They have no checksum of their own. Memory holds one of them and the window of the algorithm, whatever the size of
    the whole. Raises `Terminal` for a type that cannot stand there (a payload among them), or a size that is not right.
    """
    reader = BodyReader(event)
    algorithm, size, stated = _payload_head(reader)
    if stated is not None and stated != reader.left:
        raise reader.cut("its payload has another size than it says")
    if algorithm == _PLAIN:
        pieces: Iterator[bytes] = iter((reader.rest(),))
    elif algorithm == _ZSTD and size is not None:
        pieces = _unpacked(reader, size)
    else:
        raise reader.cut("compressed in a way that is not known")
    held = bytearray()
    for piece in pieces:
        held += piece
        offset = 0
        while len(held) - offset >= _HEADER.size:
            length = int.from_bytes(held[offset + 9 : offset + 13], "little")
            if length < _HEADER.size:
                raise reader.cut("an event inside of it has no room for its own header")
            if len(held) - offset < length:
                break
            yield _inner(reader, bytes(held[offset : offset + length]))
            offset += length
        del held[:offset]
    if held:
        raise reader.cut("an event inside of it is cut short")


def _payload_head(reader: BodyReader) -> tuple[int, int | None, int | None]:
    """(algorithm, size of the content, size of the payload); numbers that are not known add nothing to reading."""
    fields: dict[int, int] = {}
    while (number := reader.lenenc()) != 0:
        data = BodyReader(reader.event, reader.take(reader.lenenc()))
        if number in fields:
            raise reader.cut("a field of its head comes twice")
        if number <= 3:
            fields[number] = data.lenenc()
            if data.left:
                raise reader.cut("a field of its head has another size than it says")
    return fields.get(2, _ZSTD), fields.get(3), fields.get(1)


def _unpacked(reader: BodyReader, size: int) -> Iterator[bytes]:
    source = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(reader.rest(), read_across_frames=True)
    made = 0
    try:
        while piece := source.read(min(_PIECE, size - made + 1)):
            made += len(piece)
            if made > size:
                raise reader.cut("its content is larger than it says")
            yield piece
    except zstandard.ZstdError as broken:
        raise reader.cut("its compressed content is broken") from broken
    if made != size:
        raise reader.cut("its content is smaller than it says")


def _inner(reader: BodyReader, data: bytes) -> Event:
    outer = reader.event
    timestamp, code, server_id, size, _log_pos, _flags = _HEADER.unpack_from(data)
    kind = KINDS[code]
    if kind is None or kind not in _INNER:
        raise reader.cut(f"an event of type {code} cannot stand inside of it")
    return Event(
        kind, timestamp, server_id, size, outer.log_pos, False, data[_HEADER.size :], outer.file, outer.flavour
    )
