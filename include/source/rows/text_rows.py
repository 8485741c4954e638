"""A SELECT's rows straight from the connection's bytes → images; by far most of them are read in C (`native`).

Protocol: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html,
without CLIENT_DEPRECATE_EOF, for which pymysql does not ask.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, COMMAND, CR
from pymysql.cursors import Cursor

from include.errors import Terminal
from include.source.rows.compiled import text_rows_of
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import row_reader

__all__ = ["select_rows"]

_PIECE: Final = 256 * 1024
_LARGEST: Final = 0xFFFFFF
_HEAD: Final = 4
_ERROR: Final = 0xFF
_EOF: Final = 0xFE
_EOF_SIZE: Final = 9
_NULL: Final = 0xFB


def select_rows(connection: Connection[Cursor], sql: str, shape: TableShape) -> Iterator[list[EncodedImage]]:
    """Images of the rows of `sql`, whose columns are `text.select_list(shape)`, in the server's order.

    A list for about every 256 KiB that come; blocks while the server says nothing, up to the connection's timeout.
    Raises `Terminal` naming table and column for a value that does not parse, and what pymysql raises where the server
    refuses or the connection breaks. Read to the end, or refused by the server, the connection can be used again;
    otherwise it is closed.
    """
    if connection.client_flag & CLIENT.DEPRECATE_EOF:
        raise Terminal("rows without an end are not read", table=shape.table)
    packets = _Packets(connection, shape)
    try:
        connection._execute_command(COMMAND.COM_QUERY, sql)  # type: ignore[attr-defined]  # noqa: SLF001
        yield from _images(packets, shape)
    finally:
        if not packets.ended:
            connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - a QUIT would not be read


def _images(packets: _Packets, shape: TableShape) -> Iterator[list[EncodedImage]]:
    compiled, plain = text_rows_of(shape), row_reader(shape)
    width = len(shape.columns) - len(shape.skipped)
    _described(packets, shape, width)
    images: list[EncodedImage] = []
    received = 0
    while not packets.ended:
        if compiled is not None:
            packets.start, packets.sequence = compiled.feed(
                packets.data, packets.start, packets.stop, packets.sequence, images
            )
        if not packets.whole():
            if received >= _PIECE:
                yield images
                images, received = [], 0
            received += packets.fill()
            continue
        row = packets.next()
        if row is None:
            packets.ended = True
        else:
            images.append(plain(_values(row, width, shape)))
    if images:
        yield images


def _described(packets: _Packets, shape: TableShape, width: int) -> None:
    """The result's head: how many columns, a packet for each, and the end of them."""
    head = packets.next()
    if head != bytes((width,)) and (head is None or head != b"\xfc" + width.to_bytes(2, "little")):
        raise Terminal("a SELECT answers with other columns", table=shape.table, wanted=width, bytes=len(head or b""))
    for _ in range(width):
        if packets.next() is None:
            raise packets.broken("too few columns described")
    if packets.next() is not None:
        raise packets.broken("too many columns described")


def _values(row: bytes, width: int, shape: TableShape) -> tuple[bytes | None, ...]:
    values: list[bytes | None] = []
    offset = 0
    while offset < len(row):
        size = row[offset]
        offset += 1
        if size == _NULL:
            values.append(None)
            continue
        if size > _NULL:
            more = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(size, len(row))
            size = int.from_bytes(row[offset : offset + more], "little")
            offset += more
        values.append(row[offset : offset + size])
        offset += size
    if offset != len(row) or len(values) != width:
        raise Terminal(
            "a selected row does not end where its packet ends", table=shape.table, columns=width, got=len(values)
        )
    return tuple(values)


class _Packets:
    """What came and is not read yet: `data[start:stop]`. `sequence` is the number that the packet there should have.

    `ended`: the server has said all that it has to say.
    """

    def __init__(self, connection: Connection[Cursor], shape: TableShape) -> None:
        self._connection = connection
        self._table = shape.table
        self._timeout_s: float | None = connection._read_timeout  # type: ignore[attr-defined]  # noqa: SLF001
        self._socket: socket.socket | None = None
        self.data = bytearray(2 * _PIECE)
        self.start = self.stop = 0
        self.sequence = 1
        self.ended = False

    def fill(self) -> int:
        """Wait for more bytes; returns how many came."""
        if len(self.data) - self.stop < _PIECE or self.start == self.stop:
            left = self.data[self.start : self.stop]
            need = max(2 * _PIECE, _HEAD + int.from_bytes(left[:3], "little") + _PIECE, len(left) * 2)
            if need > len(self.data) or need * 4 < len(self.data):
                self.data = bytearray(need)
            self.data[: len(left)] = left
            self.start, self.stop = 0, len(left)
        try:
            got = self._raw().recv_into(memoryview(self.data)[self.stop :])
        except OSError as broken:
            raise _lost(f" ({broken})") from broken
        if not got:
            raise _lost("")
        self.stop += got
        return got

    def whole(self) -> bool:
        """Whether a packet has come whole, with all that it goes on in."""
        offset = self.start
        while self.stop - offset >= _HEAD:
            size = int.from_bytes(self.data[offset : offset + 3], "little")
            offset += _HEAD + size
            if size < _LARGEST:
                return offset <= self.stop
        return False

    def next(self) -> bytes | None:
        """The next packet, None for the end of columns or rows; waits for it. Raises the server's errors (`ended`)."""
        while not self.whole():
            self.fill()
        parts = []
        size = _LARGEST
        while size == _LARGEST:
            head = self.data[self.start : self.start + _HEAD]
            size, number = int.from_bytes(head[:3], "little"), head[3]
            if number != self.sequence:
                # MariaDB numbers the error of its shutdown 0.
                raise _lost("") if number == 0 else self.broken(f"packet {number} for packet {self.sequence}")
            parts.append(self.data[self.start + _HEAD : self.start + _HEAD + size])
            self.start += _HEAD + size
            self.sequence = (self.sequence + 1) & 0xFF
        packet = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        if not packet:
            raise self.broken("an empty packet")
        if packet[0] == _ERROR:
            self.ended = True
            pymysql.err.raise_mysql_exception(packet)
        return None if packet[0] == _EOF and len(packet) < _EOF_SIZE else packet

    def broken(self, reason: str) -> pymysql.err.InternalError:
        """The error of bytes that are not the protocol's."""
        return pymysql.err.InternalError(CR.CR_MALFORMED_PACKET, f"{reason}, in the rows of {self._table}")

    def _raw(self) -> socket.socket:
        if self._socket is None:
            raw: socket.socket = self._connection._sock  # type: ignore[attr-defined]  # noqa: SLF001 - possibly inside TLS
            raw.settimeout(self._timeout_s)
            self._connection._current_timeout = self._timeout_s  # type: ignore[attr-defined]  # noqa: SLF001
            self._socket = raw
        return self._socket


def _lost(cause: str) -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{cause}")
