"""TABLE_MAP events: what a table looked like when its rows were written.

Body: id 6 bytes, flags u16, database and table, number of columns, a type each, their metadata, nullable bits, then
optional fields (binlog_row_metadata). Which columns a field speaks of follows from their types, so a field that does
not fit its columns to the last byte is refused; fields of unknown numbers say nothing of how bytes are read, and are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from include.errors import Terminal
from include.source.binlog.body import BodyReader
from include.source.binlog.reader import Event

__all__ = ["ENUM", "SET", "TableMap", "parse_table_map", "table_name"]

ENUM: Final = 247
SET: Final = 248
_NUMERIC: Final = frozenset({0, 1, 2, 3, 4, 5, 8, 9, 13, 246})
_CHARACTER: Final = frozenset({15, 140, 141, 252, 253, 254})
_GEOMETRY, _VECTOR = 255, 242
_META_BYTES: Final = {
    **dict.fromkeys((0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13), 0),
    **dict.fromkeys((4, 5, 17, 18, 19, 140, _VECTOR, 245, 252, _GEOMETRY), 1),
    **dict.fromkeys((15, 16, 141, 246, 253, 254), 2),
}


@dataclass(frozen=True, slots=True)
class TableMap:
    """One table's columns. Maps of equal content are equal, whatever id and flags they were sent under.

    Attributes:
        metas: one for each column; of types 254 and 246 the first byte is the high one.
        names: one for each column; () when the map does not say.
        unsigned: indexes of unsigned numeric columns; of use only if `signs_known`.
        signs_known: whether the map says which numeric columns are unsigned.
        charsets: column index → collation id of character, ENUM and SET columns; empty when the map does not say.
        labels: column index → labels of ENUM and SET columns, in the column's charset.
        key: indexes of the primary key's columns; () when unknown.
        key_prefixed: whether the key holds only the beginning of one of them.
        invisible: indexes of columns that `SELECT *` leaves out; empty when the map does not say.
        vector_dimensions: column index → dimensions of MySQL's VECTOR columns.
        geometry_types: column index → OGC type of GEOMETRY columns.
        refusal: why the map, or the head of its rows, could not be read: then it has no columns.
    """

    table_id: int = field(compare=False)
    database: str
    table: str
    types: bytes
    metas: tuple[int, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...] = ()
    unsigned: frozenset[int] = frozenset()
    charsets: dict[int, int] = field(default_factory=dict, hash=False)
    labels: dict[int, tuple[bytes, ...]] = field(default_factory=dict, hash=False)
    key: tuple[int, ...] = ()
    key_prefixed: bool = False
    signs_known: bool = True
    invisible: frozenset[int] = frozenset()
    vector_dimensions: dict[int, int] = field(default_factory=dict, hash=False)
    geometry_types: dict[int, int] = field(default_factory=dict, hash=False)
    flags: int = field(default=0, compare=False)
    refusal: Terminal | None = field(default=None, compare=False)

    def __hash__(self) -> int:
        # Of a few fields, which strings and bytes remember: maps are looked up for each event of rows.
        return hash((self.database, self.table, self.types))

    @property
    def name(self) -> tuple[str, str]:
        """(database, table)."""
        return self.database, self.table

    def real_type(self, index: int) -> int:
        """The column's type; ENUM and SET stand as 254 with the type in the metadata."""
        return _real_type(self.types[index], self.metas[index])


def table_name(event: Event) -> tuple[str, str]:
    """(database, table) of a TABLE_MAP event, without reading more of it."""
    reader = BodyReader(event)
    reader.take(8)
    return reader.name(), reader.name()


def parse_table_map(event: Event) -> TableMap:
    """The whole event; raises `Terminal` for bytes that do not fit, naming place, table and cause."""
    reader = BodyReader(event)
    table_id, flags = reader.integer(6), reader.integer(2)
    database, table = reader.name(), reader.name()
    types = reader.take(reader.lenenc())
    metas = _metas(reader, types, f"{database}.{table}")
    nullable = _bits(reader.take((len(types) + 7) // 8), len(types), highest_first=False)
    fields: dict[int, bytes] = {}
    while reader.left:
        number = reader.integer(1)
        if number in fields:
            raise reader.cut(f"field {number} of {database}.{table} comes twice")
        fields[number] = reader.take(reader.lenenc())
    known = _Fields(event, f"{database}.{table}", types, metas, fields)
    key, key_prefixed = known.key()
    return TableMap(
        table_id,
        database,
        table,
        types,
        metas,
        nullable,
        known.names(),
        known.unsigned(),
        known.charsets(),
        known.labels(),
        key,
        key_prefixed,
        1 in fields,
        known.invisible(),
        known.each(13, known.of({_VECTOR})),
        known.each(7, known.of({_GEOMETRY})),
        flags,
    )


def _real_type(code: int, meta: int) -> int:
    return meta >> 8 if code == 254 and meta >> 8 in (ENUM, SET) else code


def _bits(data: bytes, count: int, *, highest_first: bool) -> tuple[bool, ...]:
    return tuple(bool(data[i >> 3] >> (7 - (i & 7) if highest_first else i & 7) & 1) for i in range(count))


def _metas(reader: BodyReader, types: bytes, table: str) -> tuple[int, ...]:
    size = reader.lenenc()
    end = reader.at + size
    metas: list[int] = []
    for index, code in enumerate(types):
        width = _META_BYTES.get(code)
        if width is None:
            raise Terminal(
                "a column's type code is not known",
                table=table,
                column=f"@{index + 1}",
                type=code,
                file=reader.event.file,
                pos=reader.event.log_pos,
                fix="Drop the table in the source's `filter`, or drop the column from it.",
            )
        metas.append(int.from_bytes(reader.take(width), "big" if code in (254, 246) else "little"))
    if reader.at != end:
        raise reader.cut(f"metadata of {table} does not end with its columns")
    return tuple(metas)


class _Fields:
    """The optional fields, each checked against the columns that it speaks of."""

    def __init__(self, event: Event, table: str, types: bytes, metas: Sequence[int], fields: dict[int, bytes]) -> None:
        self._event, self._table, self._fields = event, table, fields
        self._types = [_real_type(code, meta) for code, meta in zip(types, metas, strict=True)]

    def of(self, codes: set[int] | frozenset[int]) -> list[int]:
        """Indexes of the columns of these types."""
        return [index for index, code in enumerate(self._types) if code in codes]

    def each(self, number: int, columns: list[int]) -> dict[int, int]:
        """A field of one integer for each of `columns`."""
        if number not in self._fields:
            return {}
        values = self._reader(number).lenencs()
        self._expect(number, len(values) == len(columns))
        return dict(zip(columns, values, strict=True))

    def unsigned(self) -> frozenset[int]:
        numeric = self.of(_NUMERIC)
        return frozenset(i for i, unsigned in zip(numeric, self._flags(1, len(numeric)), strict=False) if unsigned)

    def invisible(self) -> frozenset[int]:
        return frozenset(i for i, visible in enumerate(self._flags(12, len(self._types))) if not visible)

    def names(self) -> tuple[str, ...]:
        if 4 not in self._fields:
            return ()
        names = tuple(text.decode("utf-8", "replace") for text in self._texts(self._reader(4), None))
        self._expect(4, len(names) == len(self._types) == len(set(names)))
        return names

    def charsets(self) -> dict[int, int]:
        # Both derive a type from BLOB and count it among the columns of character: GEOMETRY, or VECTOR.
        beside = _GEOMETRY if self._event.flavour == "mariadb" else _VECTOR
        found = self._charsets(2, 3, self.of(_CHARACTER | {beside})) | self._charsets(10, 11, self.of({ENUM, SET}))
        return {column: collation for column, collation in found.items() if self._types[column] != beside}

    def labels(self) -> dict[int, tuple[bytes, ...]]:
        labels: dict[int, tuple[bytes, ...]] = {}
        for number, code in ((5, SET), (6, ENUM)):
            if number not in self._fields:
                continue
            reader = self._reader(number)
            for column in self.of({code}):
                labels[column] = self._texts(reader, reader.lenenc())
            self._expect(number, not reader.left)
        return labels

    def key(self) -> tuple[tuple[int, ...], bool]:
        columns = self._reader(8).lenencs()
        pairs = self._reader(9).lenencs()
        self._expect(9, len(pairs) % 2 == 0 and not (columns and pairs))
        columns += pairs[::2]
        self._expect(8, all(i < len(self._types) for i in columns) and len(set(columns)) == len(columns))
        return tuple(columns), any(pairs[1::2])

    def _charsets(self, default: int, each: int, columns: list[int]) -> dict[int, int]:
        if default not in self._fields:
            return self.each(each, columns)
        usual, *exceptions = self._reader(default).lenencs() or [-1]
        self._expect(default, usual >= 0 and len(exceptions) % 2 == 0 and each not in self._fields)
        found = dict.fromkeys(columns, usual)
        for place, charset in zip(exceptions[::2], exceptions[1::2], strict=True):
            self._expect(default, place < len(columns))
            found[columns[place]] = charset
        return found

    def _flags(self, number: int, count: int) -> tuple[bool, ...]:
        if number not in self._fields:
            return ()
        data = self._fields[number]
        self._expect(number, len(data) == (count + 7) // 8)
        return _bits(data, count, highest_first=True)

    def _texts(self, reader: BodyReader, count: int | None) -> tuple[bytes, ...]:
        found: list[bytes] = []
        while reader.left if count is None else len(found) < count:
            found.append(reader.take(reader.lenenc()))
        return tuple(found)

    def _reader(self, number: int) -> BodyReader:
        return BodyReader(self._event, self._fields.get(number, b""))

    def _expect(self, number: int, fits: bool) -> None:
        if not fits:
            raise self._reader(number).cut(f"field {number} of {self._table} does not fit its columns")
