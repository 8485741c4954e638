"""The bodies of binlog events: statements, rows up to their images, XA, heartbeats, texts of statements.

https://mariadb.com/kb/en/replication-protocol/. Every parser reads to the last byte that its event has, or raises
`Terminal`: an event cut short is refused, never read as something else.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from include.record.gtid import Flavour
from include.record.position import BinlogPosition
from include.source.binlog.body import BodyReader
from include.source.binlog.compression import inflate
from include.source.binlog.event_type import EventType
from include.source.binlog.gtid_event import Xid, parse_xid
from include.source.binlog.reader import Event
from include.source.binlog.table_map import ENUM, SET, TableMap
from include.source.charsets.charset import charset_of, text_decoder

__all__ = [
    "END_OF_STATEMENT",
    "ENUM",
    "ROWS",
    "SET",
    "QueryEvent",
    "RowOp",
    "RowsHead",
    "TableMap",
    "bits",
    "parse_heartbeat",
    "parse_prepare",
    "parse_query",
    "parse_rows_head",
]

RowOp = Literal["c", "u", "d"]
"""c: rows that came into being; u: rows before and after a change; d: rows that went."""

END_OF_STATEMENT: Final = 0x01
"""The bit of a rows event's flags that ends a statement, and with it the table maps."""

_V1, _V2 = 1, 2
ROWS: Final[dict[int, tuple[RowOp, int, bool]]] = {
    int(EventType.WRITE_ROWS): ("c", _V1, False),
    int(EventType.UPDATE_ROWS): ("u", _V1, False),
    int(EventType.DELETE_ROWS): ("d", _V1, False),
    int(EventType.WRITE_ROWS_V2): ("c", _V2, False),
    int(EventType.UPDATE_ROWS_V2): ("u", _V2, False),
    int(EventType.DELETE_ROWS_V2): ("d", _V2, False),
    int(EventType.PARTIAL_UPDATE_ROWS): ("u", _V2, False),
    int(EventType.WRITE_ROWS_COMPRESSED): ("c", _V1, True),
    int(EventType.UPDATE_ROWS_COMPRESSED): ("u", _V1, True),
    int(EventType.DELETE_ROWS_COMPRESSED): ("d", _V1, True),
    int(EventType.WRITE_ROWS_COMPRESSED_V2): ("c", _V2, True),
    int(EventType.UPDATE_ROWS_COMPRESSED_V2): ("u", _V2, True),
    int(EventType.DELETE_ROWS_COMPRESSED_V2): ("d", _V2, True),
}
"""Types that carry rows → what the rows are, version of the form, whether it is compressed."""

_QUERY: Final = struct.Struct("<IIBHH")
_LOADED: Final = 13
# Sizes of the status variables that stand before the character set, by their number; None: a length byte, then text.
_STATUS: Final[dict[int, int | None]] = {0: 4, 1: 8, 2: None, 3: 4, 6: None}
_STATUS_SQL_MODE: Final = 1
_STATUS_CHARSET: Final = 4


@dataclass(frozen=True, slots=True)
class RowsHead:
    """A rows event up to its images: `body` is the rest from the width on, decompressed, without extra data.

    `partial`: after images may hold differences of JSON documents (PARTIAL_UPDATE).
    """

    table_id: int
    op: RowOp
    end_of_statement: bool
    body: bytes
    partial: bool = False


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A statement's text, the database that it ran in and its connection's id.

    `sql_mode`: the server's bits of the session's, which say how quotes are read; 0 where it is not told.
    """

    thread: int
    database: str
    text: str
    sql_mode: int = 0


def bits(data: bytes, count: int) -> list[int]:
    """The first `count` bits, least significant first in each byte."""
    return [data[i >> 3] >> (i & 7) & 1 for i in range(count)]


def parse_query(event: Event) -> QueryEvent:
    """A QUERY event, compressed or not, or that of a LOAD DATA."""
    body = event.body
    # Of a LOAD DATA ids and places of its file follow.
    head = _QUERY.size + (_LOADED if event.type is EventType.EXECUTE_LOAD_QUERY else 0)
    if len(body) < head:
        raise BodyReader(event).cut()
    thread, _seconds, database_size, _error, status_size = _QUERY.unpack_from(body)
    start = head + status_size
    end = start + database_size
    if len(body) <= end or body[end]:
        raise BodyReader(event).cut("the name of its database does not end")
    raw = body[end + 1 :]
    if event.type is EventType.QUERY_COMPRESSED:
        raw = inflate(BodyReader(event, raw))
    status = _status(body[head:start])
    text = raw.decode("ascii") if raw.isascii() else _text(raw, status.get(_STATUS_CHARSET), event.flavour)
    return QueryEvent(thread, body[start:end].decode("utf-8", "replace"), text, status.get(_STATUS_SQL_MODE, 0))


def parse_rows_head(event: Event) -> RowsHead:
    """A rows event of any kind."""
    op, version, compressed = ROWS[event.type]
    body = event.body
    start = 8 if version == _V1 else 8 + int.from_bytes(body[8:10], "little")
    if len(body) < start or (version == _V2 and start < 10):
        raise BodyReader(event).cut("it ends inside of its head")
    table_id, flags = int.from_bytes(body[:6], "little"), body[6]
    if compressed:
        reader = BodyReader(event)
        reader.take(start)
        reader.take((reader.lenenc() + 7) // 8 * (2 if op == "u" else 1))
        images = body[start : reader.at] + inflate(reader)
    else:
        images = body[start:]
    partial = event.type is EventType.PARTIAL_UPDATE_ROWS
    return RowsHead(table_id, op, bool(flags & END_OF_STATEMENT), images, partial)


def parse_prepare(event: Event) -> tuple[Xid, bool]:
    """(name, whether it is committed in one phase, that is: at once) of an XA_PREPARE event."""
    reader = BodyReader(event)
    one_phase = reader.integer(1)
    xid = parse_xid(reader, 4)
    if reader.left or one_phase > 1:
        raise reader.cut("it does not end with the name of its XA transaction")
    return xid, bool(one_phase)


def parse_heartbeat(event: Event) -> BinlogPosition:
    """What stands in the server's binlog up to here has been sent."""
    if event.type is EventType.HEARTBEAT:
        file = event.body.decode("utf-8", "replace")
        return BinlogPosition(file or event.file, event.log_pos)
    reader = BodyReader(event)
    file, pos = event.file, event.log_pos
    while (number := reader.lenenc()) != 0:
        data = BodyReader(event, reader.take(reader.lenenc()))
        if number == 1:
            file = data.rest().decode("utf-8", "replace")
        elif number == 2:
            pos = data.lenenc()
    return BinlogPosition(file, pos)


def _status(status: bytes) -> dict[int, int]:
    """The session's sql_mode and its client's collation, by their numbers, as far as they are told."""
    variables: dict[int, int] = {}
    offset = 0
    while offset < len(status):
        number = status[offset]
        if number == _STATUS_CHARSET:
            if offset + 7 <= len(status):
                variables[number] = int.from_bytes(status[offset + 1 : offset + 3], "little")
            break
        if number not in _STATUS:
            break
        size = _STATUS[number]
        if size is None:
            # Number 2 has a zero byte after its text, from a time when its length was not trusted.
            size = 1 + (status[offset + 1] if offset + 1 < len(status) else 0) + (1 if number == 2 else 0)
        elif number == _STATUS_SQL_MODE:
            variables[number] = int.from_bytes(status[offset + 1 : offset + 1 + size], "little")
        offset += 1 + size
    return variables


def _text(data: bytes, collation: int | None, flavour: Flavour) -> str:
    """A statement in its client's charset. It only informs, so what is no text there is shown, not refused."""
    if collation is not None:
        charset = charset_of(collation, flavour)
        if charset is not None and charset != "binary":
            with suppress(ValueError):
                return text_decoder(charset)(data)
    return data.decode("utf-8", "backslashreplace")
