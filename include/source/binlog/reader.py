"""The binlog's outermost shape: packets, event headers, checksums, positions. Nothing here knows rows.

Fail closed: an event passes when its type is one that carries no rows, or one that we decode; any other stops the
source with its type and position, so that no row is passed over in silence.

A header states its event's end in 32 bits, which wrap at 4 GiB, and MariaDB ≥ 11.4 states 0 inside of transactions.
The reader keeps 64 bits: a ROTATE gives a file's first position in full, each event moves it by its own size, and a
stated end then corrects it to the next number that ends in those 32 bits. That is exact wherever an end is stated, as
long as the server leaves out less than nearly 4 GiB at once; where none is stated it is exact unless the server left
something out (it leaves out ANNOTATE when a dump did not ask for it).
"""

from __future__ import annotations

import re
import ssl
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from isal import isal_zlib

from include.errors import LyrebirdError, Terminal, Transient
from include.record.gtid import Flavour
from include.source.binlog.event_type import ADVICE, KINDS, SPOILT, EventType
from include.source.binlog.format_description import DESCRIPTION_BYTES, FormatDescription, parse_format_description
from include.source.definition import SourceDefinition
from include.source.server_errors import error_of

__all__ = ["Event", "EventReader", "EventType", "Packets"]

# With TLS a socket that may not wait says so in its own way.
_NOTHING_YET: Final = (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_HEADER: Final = struct.Struct("<IBIIIH")
_U32: Final = struct.Struct("<I")
_ARTIFICIAL: Final = 0x20
_IGNORABLE: Final = 0x80
_IN_USE: Final = 0x01
# They take no place of their own in what is sent from a file's middle, where they state none.
_MOVELESS: Final = (EventType.FORMAT_DESCRIPTION, EventType.START_ENCRYPTION)
_LEAST: Final = _HEADER.size + 4
_MOST: Final = 0xFFFFFF
# The CRC32 of anything followed by its own CRC32.
_FITS: Final = 0x2144DF1C
_HALF: Final = 1 << 31
# By so much an end may lie below the sum of sizes, should a server ever send what stands in no file.
_SLACK: Final = 1 << 16
# Below what malloc asks the system for, anew each time: zeroing those pages costs as much as receiving.
_RECEIVED: Final = (1 << 17) - 64
# Beyond it positions would leave 64 bits.
_LARGEST_FILE: Final = 1 << 62
_FILE_NAME: Final = re.compile(rb"[^\0-\x1f\x7f/]+\.[0-9]+")
_HEARTBEATS: Final = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)


class Event(NamedTuple):
    """One event without its checksum.

    `file` is the binlog that it stands in, `log_pos` the byte after it there (64 bits, see above), `size` its bytes
    with header and checksum, `timestamp` whole seconds UTC; `flavour` whose bytes these are.
    """

    type: EventType
    timestamp: int
    server_id: int
    size: int
    log_pos: int
    artificial: bool
    body: bytes
    file: str
    flavour: Flavour = "mariadb"


class _Receiver(Protocol):
    def recv(self, size: int) -> bytes: ...

    def settimeout(self, seconds: float | None) -> None: ...


class Packets:
    """Splits what a socket gives into events' bytes; never loses a partial packet when time runs out."""

    def __init__(self, connection: _Receiver, source: SourceDefinition) -> None:
        self._connection = connection
        self._source = source
        self._buffer = bytearray()
        self._at = 0
        self._parts: list[bytes] = []

    def next(self, timeout_s: float) -> bytes | None:
        """The next event's bytes, None when none was complete within `timeout_s`; raises what the server says."""
        while True:
            found = self.take()
            if found is not None or not self.fill(timeout_s):
                return found

    def fill(self, timeout_s: float) -> bool:
        """Receive more; False when nothing came within `timeout_s`, 0: when nothing is here.

        Raises `Transient` for a connection that ended.
        """
        self._connection.settimeout(max(timeout_s, 0.0))
        try:
            more = self._connection.recv(_RECEIVED)
        except _NOTHING_YET:
            return False
        except OSError as broken:
            raise _cut(self._source, str(broken)) from broken
        if not more:
            raise _cut(self._source, "connection closed")
        del self._buffer[: self._at]
        self._at = 0
        self._buffer += more
        return True

    def pass_to(self, taker: Callable[[bytearray, int], tuple[int, bool]]) -> bool:
        """Let `taker` read what is here, from a packet's first byte on: it returns where it ended, and an answer."""
        if self._parts:
            return False
        self._at, answer = taker(self._buffer, self._at)
        return answer

    def take(self) -> bytes | None:
        """The next event's bytes, None when none is here as a whole; raises what the server says."""
        buffer = self._buffer
        while len(buffer) - self._at >= 4:
            length = _U32.unpack_from(buffer, self._at)[0] & _MOST
            start = self._at + 4
            end = start + length
            if len(buffer) < end:
                return None
            self._at = end
            if self._parts:
                payload = bytes(buffer[start:end])
            else:
                mark = buffer[start] if length else 0
                if mark == 0xFF:
                    raise _refusal(bytes(buffer[start:end]), self._source)
                if mark == 0xFE and length < 9:
                    raise _cut(self._source, "the server ended the dump")
                payload = bytes(buffer[start + 1 : end])
                if length < _MOST:
                    return payload
            self._parts.append(payload)
            if length < _MOST:
                whole = b"".join(self._parts)
                self._parts = []
                return whole
        return None


class EventReader:
    """Turns events' bytes into `Event`s: header, checksum by each file's own description, allow-list of types.

    `file` names the binlog until a ROTATE does, `end` is the byte in it after the last event, 0 when not known. One
    reader serves one dump, or one file.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self._description = FormatDescription("", "mariadb", checksum=True, created=0)
        self.end = 0

    @property
    def flavour(self) -> Flavour:
        """Whose binlog it is; as the format description says, "mariadb" before one was read."""
        return self._description.flavour

    @property
    def checksum(self) -> bool:
        """Whether events have checksums."""
        return self._description.checksum

    @property
    def server_version(self) -> str:
        """The version text of the server that wrote the binlog; empty before its format description."""
        return self._description.server_version

    def parse(self, data: bytes) -> Event:
        """One event; raises `Terminal` for a type, size or checksum that is not right. Names type and position."""
        if len(data) < _HEADER.size:
            raise Terminal("binlog event is cut short", file=self.file, size=len(data), fix=SPOILT)
        timestamp, code, server_id, size, stated, flags = _HEADER.unpack_from(data)
        kind = KINDS[code]
        # Where the server states no end, the last event's is the nearest place that is known.
        stated_or_last = stated or self.end
        if code == EventType.START_ENCRYPTION and flags & _IGNORABLE:
            kind = EventType.START_ENCRYPTION
        if kind is None:
            raise Terminal(
                "binlog event of a type that is not read",
                type=code,
                file=self.file,
                pos=stated_or_last,
                fix=ADVICE.get(code, "Nothing was skipped; a newer release may read it."),
            )
        if size != len(data):
            raise Terminal(
                "binlog event has another size than it says", file=self.file, pos=stated_or_last, type=code, fix=SPOILT
            )
        description = self._description
        if kind is EventType.FORMAT_DESCRIPTION:
            body = self._described(data, stated)
            description = self._description
        elif kind is EventType.ROTATE:
            return self._rotated(data, timestamp, server_id, stated, bool(flags & _ARTIFICIAL))
        elif description.checksum:
            if size < _LEAST or isal_zlib.crc32(data) != _FITS:
                raise self._unsummed(kind, size, stated)
            body = data[19:-4]
        else:
            body = data[19:]
        if flags & _ARTIFICIAL:
            pass
        elif stated:
            self._move(size, stated, kind)
        elif kind not in _MOVELESS:
            self.end += size
        artificial = bool(flags & _ARTIFICIAL)
        # Through tuple's own constructor, as an event is made for each few hundred bytes of binlog.
        return tuple.__new__(
            Event,
            (kind, timestamp, server_id, size, self.end, artificial, body, self.file, description.flavour),
        )

    def _move(self, size: int, stated: int, kind: EventType) -> None:
        if kind in _HEARTBEATS:
            # It tells a position and takes no room itself; a later one has passed what was not sent.
            ahead = (stated - self.end) & 0xFFFFFFFF
            self.end += ahead if ahead < _HALF else 0
            return
        if not self.end:
            self.end = stated
            return
        least = self.end + size
        end = least + ((stated - least + _SLACK) & 0xFFFFFFFF) - _SLACK
        self.end = end if end > 0 else end + (1 << 32)

    def _described(self, data: bytes, stated: int) -> bytes:
        if len(data) < DESCRIPTION_BYTES:
            raise Terminal("format description is cut short", file=self.file, pos=stated, fix=SPOILT)
        description = parse_format_description(data, self.file)
        if description.checksum:
            flags = data[17] & ~_IN_USE
            # The server takes back this flag when it closes the file, and leaves the checksum as it was.
            if isal_zlib.crc32(data[:17] + bytes((flags,)) + data[18:]) != _FITS:
                raise self._unsummed(EventType.FORMAT_DESCRIPTION, len(data), stated)
        self._description = description
        return data[19:-4] if description.footer else data[19:]

    def _rotated(self, data: bytes, timestamp: int, server_id: int, stated: int, artificial: bool) -> Event:
        kind = EventType.ROTATE
        if artificial:
            # It is made for this connection, with a checksum or without, whatever the file after it has. The name's
            # own end tells: a checksum that fits is one, and a name without any ends in its number.
            summed = isal_zlib.crc32(data) == _FITS
        else:
            summed = self._description.checksum
            if summed and isal_zlib.crc32(data) != _FITS:
                raise self._unsummed(kind, len(data), stated)
        body = data[19:-4] if summed else data[19:]
        if len(body) < 9:
            raise Terminal("rotate event is cut short", file=self.file, pos=stated, fix=SPOILT)
        name = body[8:]
        if not _FILE_NAME.fullmatch(name):
            raise Terminal(
                "rotate event fails its checksum or names no binlog file",
                name=name.decode("utf-8", "backslashreplace"),
                file=self.file,
                pos=stated,
                fix=SPOILT,
            )
        begins = int.from_bytes(body[:8], "little")
        if begins > _LARGEST_FILE:
            raise Terminal(
                "rotate event names a place that no file has", begins=begins, file=self.file, pos=stated, fix=SPOILT
            )
        self.file, self.end = name.decode("utf-8", "replace"), begins
        return Event(
            kind, timestamp, server_id, len(data), self.end, artificial, body, self.file, self._description.flavour
        )

    def _unsummed(self, kind: EventType, size: int, stated: int) -> Terminal:
        details: dict[str, Any] = {"type": int(kind), "file": self.file, "pos": stated or self.end}
        if size < _LEAST:
            return Terminal("binlog event is cut short", **details, fix=SPOILT)
        return Terminal(
            "binlog event fails its checksum",
            **details,
            fix=SPOILT,
        )


def _refusal(payload: bytes, source: SourceDefinition) -> LyrebirdError:
    code = int.from_bytes(payload[1:3], "little")
    text = payload[3:].decode("utf-8", "replace")
    return error_of(RuntimeError(code, text[6:] if text.startswith("#") else text), source)


def _cut(source: SourceDefinition, answer: str) -> Transient:
    return Transient("the binlog connection broke", system="mysql", server=source.place, answer=answer)
