"""The binlog's outermost shape: packets, event headers, checksums. Nothing here knows rows.

Fail closed: an event passes when its type is one that carries no rows, or one that we decode; any other stops the
source with its type and position, so that no row is passed over in silence.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from include.errors import LyrebirdError, Terminal, Transient
from include.source.connection import error_of
from include.source.definition import SourceDefinition

__all__ = ["Event", "EventReader", "EventType", "Packets"]

_HEADER: Final = struct.Struct("<IBIIIH")
_ARTIFICIAL: Final = 0x20
_CRC32: Final = 1
_MOST: Final = 0xFFFFFF


class EventType(IntEnum):
    """The types that may stand in a binlog that we read; all others are refused."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    FORMAT_DESCRIPTION = 15
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS = 23
    UPDATE_ROWS = 24
    DELETE_ROWS = 25
    HEARTBEAT = 27
    ANNOTATE = 160
    CHECKPOINT = 161
    GTID = 162
    GTID_LIST = 163


_KNOWN: Final = frozenset(EventType)
_ADVICE: Final = {
    20: "The server writes rows in a form of before MySQL 5.1.",
    21: "The server writes rows in a form of before MySQL 5.1.",
    22: "The server writes rows in a form of before MySQL 5.1.",
    26: "The server lost events (INCIDENT): run `lyrebird capture run --source … --snapshot --anew`.",
    5: "Set binlog_format = ROW for every session.",
    13: "Set binlog_format = ROW for every session.",
    14: "Set binlog_format = ROW for every session.",
    38: "XA transactions are not read.",
    164: "Encrypted binlogs are not read: set encrypt_binlog = OFF.",
} | dict.fromkeys(range(165, 172), "Compressed events are not read: set log_bin_compress = OFF.")


@dataclass(frozen=True, slots=True)
class Event:
    """One event without its checksum; `file` is the binlog that it stands in, `timestamp` whole seconds UTC."""

    type: EventType
    timestamp: int
    server_id: int
    size: int
    log_pos: int
    artificial: bool
    body: bytes
    file: str


class _Receiver(Protocol):
    def recv(self, size: int) -> bytes: ...

    def settimeout(self, seconds: float | None) -> None: ...


class Packets:
    """Splits what a socket gives into events' bytes; never loses a partial packet when time runs out."""

    def __init__(self, connection: _Receiver, source: SourceDefinition) -> None:
        self._connection = connection
        self._source = source
        self._buffer = bytearray()
        self._parts: list[bytes] = []

    def next(self, timeout_s: float) -> bytes | None:
        """The next event's bytes, None when none was complete within `timeout_s`; raises what the server says."""
        while True:
            found = self._take()
            if found is not None:
                return found
            self._connection.settimeout(max(timeout_s, 0.001))
            try:
                more = self._connection.recv(1 << 18)
            except TimeoutError:
                return None
            except OSError as broken:
                raise _cut(self._source, str(broken)) from broken
            if not more:
                raise _cut(self._source, "connection closed")
            self._buffer += more

    def _take(self) -> bytes | None:
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:3], "little")
            if len(self._buffer) < 4 + length:
                return None
            payload = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            first = not self._parts
            if first and payload[:1] == b"\xff":
                raise _refusal(payload, self._source)
            if first and payload[:1] == b"\xfe" and length < 9:
                raise _cut(self._source, "the server ended the dump")
            self._parts.append(payload[1:] if first else payload)
            if length < _MOST:
                whole = b"".join(self._parts)
                self._parts = []
                return whole
        return None


class EventReader:
    """Turns events' bytes into `Event`s: header, checksum by each file's own description, allow-list of types."""

    def __init__(self) -> None:
        self.file = ""
        self._checksum = True

    def parse(self, data: bytes) -> Event:
        """One event; raises `Terminal` for a type, size or checksum that is not right. Names type and position."""
        if len(data) < _HEADER.size:
            raise Terminal("binlog event is cut short", file=self.file, size=len(data))
        timestamp, code, server_id, size, log_pos, flags = _HEADER.unpack_from(data)
        if size != len(data):
            raise Terminal("binlog event has another size than it says", file=self.file, pos=log_pos, type=code)
        if code not in _KNOWN:
            raise Terminal(
                "binlog event of a type that is not read",
                type=code,
                file=self.file,
                pos=log_pos,
                fix=_ADVICE.get(code, "Nothing was skipped; a newer release may read it."),
            )
        kind = EventType(code)
        if kind is EventType.FORMAT_DESCRIPTION:
            if len(data) < _HEADER.size + 62:
                raise Terminal("format description is cut short", file=self.file, pos=log_pos)
            self._checksum = data[-5] == _CRC32
        body = self._checked(data, kind, log_pos)
        if kind is EventType.ROTATE:
            if len(body) < 9:
                raise Terminal("rotate event is cut short", file=self.file, pos=log_pos)
            self.file = body[8:].decode("utf-8", "replace")
        return Event(kind, timestamp, server_id, size, log_pos, bool(flags & _ARTIFICIAL), body, self.file)

    def _checked(self, data: bytes, kind: EventType, log_pos: int) -> bytes:
        always = kind is EventType.FORMAT_DESCRIPTION
        if not self._checksum and not always:
            return data[_HEADER.size :]
        stated = int.from_bytes(data[-4:], "little")
        if (self._checksum or not always) and len(data) < _HEADER.size + 4:
            raise Terminal("binlog event is cut short", file=self.file, pos=log_pos, type=int(kind))
        if self._checksum and zlib.crc32(data[:-4]) != stated:
            raise Terminal(
                "binlog event fails its checksum",
                type=int(kind),
                file=self.file,
                pos=log_pos,
                fix="Check the server's disk and the network; capture goes on from its last position when started.",
            )
        return data[_HEADER.size : -4]


def _refusal(payload: bytes, source: SourceDefinition) -> LyrebirdError:
    code = int.from_bytes(payload[1:3], "little")
    text = payload[3:].decode("utf-8", "replace")
    return error_of(RuntimeError(code, text[6:] if text.startswith("#") else text), source)


def _cut(source: SourceDefinition, answer: str) -> Transient:
    return Transient("the binlog connection broke", system="mysql", server=source.place, answer=answer)
