"""GTID events, which begin a group: MariaDB's, MySQL's with and without a tag, MySQL's anonymous ones.

A tagged one is a message of MySQL's serialization library: version, size of the whole, highest number of a field that
a reader must know, then fields as (number, value), all integers of variable length, also each byte of the uuid.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from include.errors import Terminal
from include.source.binlog.body import BodyReader
from include.source.binlog.event_type import EventType
from include.source.binlog.reader import Event

__all__ = ["Gtid", "Xid", "parse_gtid", "parse_xid"]

_STANDALONE, _GROUP_COMMIT, _XA_PREPARED, _XA_COMPLETED = 0x01, 0x02, 0x40, 0x80
_MORE: Final = _GROUP_COMMIT | _XA_PREPARED | _XA_COMPLETED
_PLAIN: Final = struct.Struct("<QIB6s")
_PADDING: Final = bytes(6)
_ENGINES, _START_ALTER, _COMMIT_ALTER, _ROLLBACK_ALTER, _THREAD = 0x01, 0x02, 0x04, 0x08, 0x10
_MYSQL: Final = struct.Struct("<B16sQ")
_LOGICAL_CLOCK: Final = 2
_STAMP_AT: Final = _MYSQL.size + 17
_HAS_ORIGINAL: Final = 1 << 55
_LAST_KNOWN: Final = 11
# Envelopes state nanoseconds in 64 bits.
_LATEST_US: Final = ((1 << 63) - 1) // 1000


@dataclass(frozen=True, slots=True)
class Xid:
    """The name of an XA transaction; `format` as 32 bits without a sign, which servers print with one or without."""

    format: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format}"


@dataclass(frozen=True, slots=True)
class Gtid:
    """The start of a group.

    Attributes:
        text: the GTID; "" of an anonymous transaction.
        standalone: MariaDB: one statement follows, without an end event.
        begun: the group's events follow at once; False: a BEGIN comes first, or a statement that stands alone.
        no_effect: MariaDB: the statement only announces an ALTER, or takes its announcement back.
        commit_us: commit time in µs, UTC; None where only the event's own stamp of whole seconds tells it.
        thread: the connection's id, where the event has it.
    """

    text: str
    standalone: bool
    begun: bool
    no_effect: bool = False
    commit_us: int | None = None
    thread: int | None = None


def parse_gtid(event: Event) -> Gtid:
    """Any of the four; raises `Terminal` for one that says more than is understood."""
    if event.type is EventType.GTID:
        return _mariadb(event)
    found = _tagged(BodyReader(event)) if event.type is EventType.TAGGED_GTID else _mysql(event)
    if found.commit_us is not None and found.commit_us > _LATEST_US:
        raise BodyReader(event).cut("its commit time is beyond the year 2262")
    return found


def parse_xid(reader: BodyReader, size_bytes: int) -> Xid:
    """Format u32, sizes of both parts in `size_bytes` each, the parts."""
    form, gtrid, bqual = reader.integer(4), reader.integer(size_bytes), reader.integer(size_bytes)
    if not 0 < gtrid <= 64 or bqual > 64:
        raise reader.cut("the name of its XA transaction is too long or empty")
    return Xid(form, reader.take(gtrid), reader.take(bqual))


def _mariadb(event: Event) -> Gtid:
    body = event.body
    if len(body) == _PLAIN.size and body[13:] == _PADDING and not body[12] & _MORE:
        # What nearly every group begins with.
        sequence, domain, flags, _ = _PLAIN.unpack(body)
        standalone = bool(flags & _STANDALONE)
        return Gtid(f"{domain}-{event.server_id}-{sequence}", standalone, not standalone)
    reader = BodyReader(event)
    sequence, domain, flags = struct.unpack("<QIB", reader.take(13))
    if flags & _GROUP_COMMIT:
        reader.take(8)
    if flags & (_XA_PREPARED | _XA_COMPLETED):
        parse_xid(reader, 1)
    # Padding of zeros stands here on servers that know no more flags.
    more = reader.integer(1) if reader.left else 0
    if more & _ENGINES:
        reader.take(1)
    if more & (_COMMIT_ALTER | _ROLLBACK_ALTER):
        reader.take(8)
    thread = reader.integer(4) if more & _THREAD else None
    standalone = bool(flags & _STANDALONE)
    return Gtid(
        f"{domain}-{event.server_id}-{sequence}",
        standalone,
        begun=not standalone,
        no_effect=bool(more & (_START_ALTER | _ROLLBACK_ALTER)),
        thread=thread,
    )


def _mysql(event: Event) -> Gtid:
    body = event.body
    if len(body) < _MYSQL.size:
        raise BodyReader(event).cut()
    _flags, sid, number = _MYSQL.unpack_from(body)
    commit_us = None
    # 5.6 ends here, 5.7 after the logical clock.
    if len(body) > _STAMP_AT and body[_MYSQL.size] == _LOGICAL_CLOCK:
        stamp = int.from_bytes(body[_STAMP_AT : _STAMP_AT + 7], "little")
        if len(body) < _STAMP_AT + (14 if stamp & _HAS_ORIGINAL else 7):
            raise BodyReader(event).cut()
        commit_us = stamp & ~_HAS_ORIGINAL
    if event.type is EventType.ANONYMOUS_GTID:
        return Gtid("", False, False, False, commit_us)
    if number == 0:
        raise BodyReader(event).cut("its number is 0")
    return Gtid(f"{_uuid_text(sid)}:{number}", False, False, False, commit_us)


@lru_cache(maxsize=256)
def _uuid_text(sid: bytes) -> str:
    return str(uuid.UUID(bytes=sid))


def _tagged(reader: BodyReader) -> Gtid:
    version, size, last_needed = reader.varlen(), reader.varlen(), reader.varlen()
    if version != 1 or size != len(reader.data) or last_needed > _LAST_KNOWN + 1:
        raise Terminal(
            "a tagged GTID says more than is understood",
            version=version,
            needs_field=last_needed,
            file=reader.event.file,
            pos=reader.event.log_pos,
            fix="A newer release may read it. Without tags in gtid_next the server writes plain GTIDs.",
        )
    fields: dict[int, Any] = {}
    last = -1
    while reader.left:
        number = reader.varlen()
        if number <= last:
            raise reader.cut("its fields are not in order")
        if number > _LAST_KNOWN:
            # What a newer server adds comes last, and says itself that a reader need not know it.
            break
        fields[number] = _FIELDS[number](reader)
        last = number
    try:
        sid, number, tag = _uuid_text(fields[1]), fields[2], fields[3].decode("ascii")
    except (KeyError, UnicodeDecodeError) as missing:
        raise reader.cut("it has no uuid, number or tag") from missing
    if number <= 0 or not tag.isidentifier() or tag != tag.lower():
        raise reader.cut("its number or tag is malformed")
    return Gtid(f"{sid}:{tag}:{number}", standalone=False, begun=False, commit_us=fields.get(6))


def _signed(reader: BodyReader) -> int:
    value = reader.varlen()
    return ~(value >> 1) if value & 1 else value >> 1


def _uuid(reader: BodyReader) -> bytes:
    values = [reader.varlen() for _ in range(16)]
    if max(values) > 0xFF:
        raise reader.cut("its uuid is malformed")
    return bytes(values)


def _text(reader: BodyReader) -> bytes:
    return reader.take(reader.varlen())


# Flags, uuid, number, tag, last committed, sequence number, commit time of this server and of the first one (µs), size,
# version of this server and of the first one, ticket of the group.
_FIELDS: Final[tuple[Callable[[BodyReader], Any], ...]] = (
    BodyReader.varlen,
    _uuid,
    _signed,
    _text,
    _signed,
    _signed,
    BodyReader.varlen,
    BodyReader.varlen,
    BodyReader.varlen,
    BodyReader.varlen,
    BodyReader.varlen,
    BodyReader.varlen,
)
