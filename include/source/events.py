"""The bodies of binlog events: table maps with FULL metadata, rows, queries, GTIDs, heartbeats.

https://mariadb.com/kb/en/replication-protocol/. Every parser reads to the last byte that its event has, or raises
`Terminal`: an event cut short is refused, never read as something else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Literal

from include.errors import Terminal
from include.source.binlog import Event, EventType

__all__ = [
    "ENUM",
    "SET",
    "Gtid",
    "Query",
    "RowOp",
    "RowsHead",
    "TableMap",
    "bits",
    "parse_gtid",
    "parse_query",
    "parse_rows_head",
    "parse_table_map",
]

RowOp = Literal["c", "u", "d"]

NUMERIC: Final = frozenset({0, 1, 2, 3, 4, 5, 8, 9, 13, 246})
_CHARACTER: Final = frozenset({15, 252, 253, 254})
_META_BYTES: Final = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 246: 2, 252: 1, 253: 2, 254: 2, 255: 1, 245: 1}
# 140 and 141 are MariaDB's compressed columns; known here so that their table can be named when it is refused.
_META_BYTES.update({140: 1, 141: 2, 242: 1})
_KNOWN_TYPES: Final = frozenset(_META_BYTES) | {0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13}
ENUM, SET = 247, 248
_OPS: Final[dict[EventType, RowOp]] = {
    EventType.WRITE_ROWS: "c",
    EventType.UPDATE_ROWS: "u",
    EventType.DELETE_ROWS: "d",
}


@dataclass(frozen=True, slots=True)
class TableMap:
    """What a table looked like when its rows were written. `names` is empty without FULL metadata.

    `charsets` holds a collation's id for each character, enum and set column, by column index; `key` the indexes of
    the primary key's columns, `key_prefixed` whether one of them is only a prefix.
    """

    table_id: int = field(compare=False)
    database: str
    table: str
    types: bytes
    metas: tuple[int, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...]
    unsigned: frozenset[int]
    charsets: dict[int, int] = field(hash=False)
    labels: dict[int, tuple[bytes, ...]] = field(hash=False)
    key: tuple[int, ...]
    key_prefixed: bool

    def real_type(self, index: int) -> int:
        """The column's type; ENUM and SET stand as 254 with the type in the metadata."""
        code = self.types[index]
        if code == 254 and self.metas[index] >> 8 in (ENUM, SET):
            return self.metas[index] >> 8
        return code


@dataclass(frozen=True, slots=True)
class RowsHead:
    """A rows event up to its images: `body` is the rest, from the width on."""

    table_id: int
    op: RowOp
    end_of_statement: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Query:
    """A statement's text, the database that it ran in and its connection's id."""

    thread: int
    database: str
    text: str


@dataclass(frozen=True, slots=True)
class Gtid:
    """MariaDB's start of a group. `standalone`: one statement without an end event; `xa`: part of an XA transaction."""

    text: str
    standalone: bool
    xa: bool


class _Reader:
    """Reads one body from front to end; any read beyond it is a cut event."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.data = event.body
        self.at = 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise self.cut()
        found = self.data[self.at : end]
        self.at = end
        return found

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def lenenc(self) -> int:
        first = self.integer(1)
        if first < 0xFB:
            return first
        if first == 0xFB or first == 0xFF:
            raise self.cut()
        return self.integer({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def name(self) -> str:
        text = self.take(self.integer(1))
        if self.take(1) != b"\0":
            raise self.cut()
        return text.decode("utf-8", "replace")

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def cut(self) -> Terminal:
        return Terminal(
            "binlog event is cut short or malformed",
            type=self.event.type.name,
            file=self.event.file,
            pos=self.event.log_pos,
        )


def bits(data: bytes, count: int) -> list[int]:
    """The first `count` bits, least significant first in each byte."""
    return [data[i >> 3] >> (i & 7) & 1 for i in range(count)]


def parse_gtid(event: Event) -> Gtid:
    """A GTID event of MariaDB; what follows the flags is not needed."""
    reader = _Reader(event)
    sequence, domain, flags = struct.unpack("<QIB", reader.take(13))
    return Gtid(f"{domain}-{event.server_id}-{sequence}", bool(flags & 0x01), bool(flags & 0xC0))


def parse_query(event: Event) -> Query:
    """A QUERY event."""
    reader = _Reader(event)
    thread, _seconds, database_size, _error, status = struct.unpack("<IIBHH", reader.take(13))
    reader.take(status)
    database = reader.take(database_size)
    if reader.take(1) != b"\0":
        raise reader.cut()
    return Query(thread, database.decode("utf-8", "replace"), reader.take(reader.left).decode("utf-8", "replace"))


def parse_rows_head(event: Event) -> RowsHead:
    """A rows event of version 1."""
    reader = _Reader(event)
    table_id, flags = reader.integer(6), reader.integer(2)
    return RowsHead(table_id, _OPS[event.type], bool(flags & 0x01), reader.take(reader.left))


def parse_table_map(event: Event) -> TableMap:
    """A TABLE_MAP event with its optional fields."""
    reader = _Reader(event)
    table_id, _flags = reader.integer(6), reader.integer(2)
    database, table = reader.name(), reader.name()
    count = reader.lenenc()
    types = reader.take(count)
    metas = _metas(reader, types, f"{database}.{table}")
    nullable = tuple(map(bool, bits(reader.take((count + 7) // 8), count)))
    fields: dict[int, bytes] = {}
    while reader.left:
        kind = reader.integer(1)
        fields[kind] = reader.take(reader.lenenc())
    found = TableMap(table_id, database, table, types, metas, nullable, (), frozenset(), {}, {}, (), key_prefixed=False)
    return _with_metadata(found, fields, event)


def _metas(reader: _Reader, types: bytes, table: str) -> tuple[int, ...]:
    size = reader.lenenc()
    end = reader.at + size
    metas: list[int] = []
    for code in types:
        if code not in _KNOWN_TYPES:
            raise Terminal("a column's type code is not known", table=table, type=code)
        raw = reader.take(_META_BYTES.get(code, 0))
        # Of 254 and 246 the first byte is the high one: type or precision; else little-endian.
        metas.append(int.from_bytes(raw, "big" if code in (254, 246) else "little"))
    if reader.at != end:
        raise reader.cut()
    return tuple(metas)


def _with_metadata(bare: TableMap, fields: dict[int, bytes], event: Event) -> TableMap:
    def sub(kind: int) -> _Reader:
        reader = _Reader(event)
        reader.data = fields.get(kind, b"")
        return reader

    columns = range(len(bare.types))
    numeric = [i for i in columns if bare.types[i] in NUMERIC]
    character = [i for i in columns if bare.types[i] in _CHARACTER and bare.real_type(i) not in (ENUM, SET)]
    labelled = [i for i in columns if bare.real_type(i) in (ENUM, SET)]
    signs = fields.get(1, b"")
    if numeric and signs and len(signs) * 8 < len(numeric):
        raise sub(1).cut()
    unsigned = frozenset(i for n, i in enumerate(numeric) if signs and signs[n >> 3] >> (7 - (n & 7)) & 1)
    names: list[str] = []
    reader = sub(4)
    while reader.left:
        names.append(reader.take(reader.lenenc()).decode("utf-8", "replace"))
    if names and len(names) != len(bare.types):
        raise reader.cut()
    charsets = _charsets(sub(2), sub(3), character) | _charsets(sub(10), sub(11), labelled)
    labels: dict[int, tuple[bytes, ...]] = {}
    for kind, code in ((5, SET), (6, ENUM)):
        reader = sub(kind)
        wanted = [i for i in labelled if bare.real_type(i) == code]
        while reader.left:
            texts = tuple(reader.take(reader.lenenc()) for _ in range(reader.lenenc()))
            if not wanted:
                raise reader.cut()
            labels[wanted.pop(0)] = texts
    key, prefixed = _key(sub(8), sub(9))
    if any(i >= len(bare.types) for i in key):
        raise sub(8).cut()
    return TableMap(
        bare.table_id,
        bare.database,
        bare.table,
        bare.types,
        bare.metas,
        bare.nullable,
        tuple(names),
        unsigned,
        charsets,
        labels,
        key,
        prefixed,
    )


def _charsets(default: _Reader, each: _Reader, columns: list[int]) -> dict[int, int]:
    if default.left:
        usual = default.lenenc()
        found = dict.fromkeys(columns, usual)
        while default.left:
            place, charset = default.lenenc(), default.lenenc()
            if place >= len(columns):
                raise default.cut()
            found[columns[place]] = charset
        return found
    found = {}
    for column in columns:
        if not each.left:
            break
        found[column] = each.lenenc()
    return found


def _key(simple: _Reader, prefixed: _Reader) -> tuple[tuple[int, ...], bool]:
    indexes: list[int] = []
    while simple.left:
        indexes.append(simple.lenenc())
    partly = False
    while prefixed.left:
        indexes.append(prefixed.lenenc())
        partly = prefixed.lenenc() > 0 or partly
    return tuple(indexes), partly
