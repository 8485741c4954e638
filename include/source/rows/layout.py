"""Derives the layout of a table's row images, a `Layout` of `Field`s, from a table map and the columns it fits.

Everything that decodes rows is made from a layout: the generated Python decoders, the native ones, the schema's checks.
Two table maps that give equal layouts give equal bytes. Type codes and metadata: `log_event.h`, `rpl_utility.h` of the
servers.

| kind | a | b | bytes in a row image |
|---|---|---|---|
| int | size | 1 = unsigned | little-endian |
| float | 4 or 8 | | IEEE 754 |
| decimal | precision | scale | groups of nine digits, big-endian |
| decimal_old | width | scale | ASCII, right-aligned |
| year | | | 1: 0, or years since 1900 |
| date | | | 3 |
| datetime, timestamp, time | digits | | 5, 4, 3 and the fraction, big-endian |
| datetime_old, timestamp_old, time_old | | | 8, 4, 3, little-endian |
| datetime_hires, timestamp_hires, time_hires | digits | | MariaDB's own before 10.1, big-endian |
| bit | bits | size | big-endian |
| enum, set | size | | index; bits |
| text, binary | size of the length | binary: padded to | length, bytes |
| text_compressed, binary_compressed | size of the length | | length, header, zlib |
| json | size of the length | | length, MySQL's binary JSON |
| vector | size of the length | | length, float32 each |
| uuid, inet6 / inet4 | 16 / 4 | | length of 1, bytes less trailing zeros |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import GEOMETRIES, Column
from include.source.binlog.events import ENUM, SET, TableMap
from include.source.charsets.charset import charset_of, max_bytes
from include.source.rows.columns import mapped_labels
from include.source.rows.shape import TableShape

__all__ = [
    "FIXED",
    "FRACTION_BYTES",
    "ColumnKind",
    "Field",
    "Layout",
    "decimal_groups",
    "layout",
    "layout_of",
    "mismatch",
]

ColumnKind = Literal[
    "int", "float", "decimal", "decimal_old", "year", "date", "datetime", "datetime_old", "datetime_hires",
    "timestamp", "timestamp_old", "timestamp_hires", "time", "time_old", "time_hires", "bit", "enum", "set",
    "text", "binary", "text_compressed", "binary_compressed", "json", "vector", "uuid", "inet4", "inet6",
]  # fmt: skip

FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_INTS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_HIRES: Final[dict[str, tuple[int, ...]]] = {
    "time_hires": (3, 4, 4, 5, 5, 5, 6),
    "datetime_hires": (8, 6, 6, 7, 7, 7, 8),
    "timestamp_hires": (4, 5, 5, 6, 6, 7, 7),
}
_PLAIN: Final[dict[ColumnKind, int]] = {
    "year": 1, "date": 3, "datetime_old": 8, "timestamp_old": 4, "time_old": 3,
}  # fmt: skip
_BASES: Final[dict[ColumnKind, int]] = {"datetime": 5, "timestamp": 4, "time": 3}
FIXED: Final[frozenset[ColumnKind]] = frozenset(
    {
        "int", "float", "decimal", "decimal_old", "bit", "enum", "set", *_PLAIN, *_BASES,
        "datetime_hires", "timestamp_hires", "time_hires",
    }
)  # fmt: skip
"""Kinds whose values have a size that the field alone tells."""

_CODES: Final[dict[str, tuple[int, ...]]] = {
    "tinyint": (1,), "smallint": (2,), "mediumint": (9,), "int": (3,), "bigint": (8,), "float": (4,), "double": (5,),
    "decimal": (246, 0), "date": (10,), "year": (13,), "datetime": (18, 12), "timestamp": (17, 7), "time": (19, 11),
    "bit": (16,), "enum": (ENUM,), "set": (SET,), "char": (254,), "binary": (254,), "uuid": (254,), "inet4": (254,),
    "inet6": (254,), "varchar": (15, 141, 253), "varbinary": (15, 141, 253), "vector": (242, 15), "json": (245,),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), (252, 140)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), (252, 140)),
    **dict.fromkeys(GEOMETRIES, (255,)),
}  # fmt: skip
_LOB_BYTES: Final = {"tiny": 1, "medium": 3, "long": 4}
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})


@dataclass(frozen=True, slots=True)
class Field:
    """One column's bytes: `kind`, `a`, `b` by the table above, `labels` of an ENUM or SET that leaves."""

    column: Column
    kind: ColumnKind
    a: int = 0
    b: int = 0
    labels: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of a value of a kind in `FIXED`."""
        if self.kind in _PLAIN:
            return _PLAIN[self.kind]
        if self.kind in _BASES:
            return _BASES[self.kind] + FRACTION_BYTES[self.a]
        if self.kind in _HIRES:
            return _HIRES[self.kind][self.a]
        if self.kind == "decimal":
            return sum(decimal_groups(self.a, self.b)[0])
        return self.b if self.kind == "bit" else self.a


@dataclass(frozen=True)
class Layout:
    """The bytes of a table's rows: a field for each column of `shape`."""

    shape: TableShape
    fields: tuple[Field, ...]


def decimal_groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """Sizes of a decimal's groups, and ten to the digits of each."""
    whole, first = divmod(precision - scale, 9)
    part, last = divmod(scale, 9)
    sizes = ([_DIGIT_BYTES[first]] if first else []) + [4] * (whole + part) + ([_DIGIT_BYTES[last]] if last else [])
    powers = ([10**first] if first else []) + [10**9] * (whole + part) + ([10**last] if last else [])
    return sizes, powers


def layout(table: TableMap, shape: TableShape, flavour: Flavour) -> Layout:
    """The layout of rows under `table`; raises `Terminal` where map and columns do not fit."""
    wrong = mismatch(table, shape.columns, flavour)
    if wrong is not None:
        raise Terminal(
            "the table map does not fit the table's columns",
            table=shape.table,
            column=wrong[0],
            reason=wrong[1],
            fix="Read the table anew: `lyrebird capture resume-table`.",
        )
    return layout_of(table, shape)


def layout_of(table: TableMap, shape: TableShape) -> Layout:
    """`layout` where `mismatch` found none; raises `Terminal` for labels that leave and that nobody tells."""
    fields = (_field(table, i, column, i not in shape.skipped) for i, column in enumerate(shape.columns))
    return Layout(shape, tuple(fields))


def mismatch(table: TableMap, columns: tuple[Column, ...], flavour: Flavour) -> tuple[str, str] | None:
    """(column, reason) of the first column that cannot be what the map says; None when all fit.

    Types, metadata and, where the map has them, signs, names and charsets are held against each other by ordinal
    position. Labels are not: information_schema of MySQL shows `?` in the place of some characters.
    """
    if len(columns) != len(table.types):
        return "", f"the map has {len(table.types)} columns, the table {len(columns)}"
    for i, column in enumerate(columns):
        if table.names and table.names[i] != column.name:
            return column.name, f"the map names it {table.names[i]}"
        reason = _wrong(table, i, column) or _other_text(table, i, column, flavour)
        if reason:
            return column.name, reason
    return None


def _wrong(table: TableMap, i: int, column: Column) -> str:
    code, meta = table.real_type(i), table.metas[i]
    if code not in _CODES.get(column.type, ()):
        return f"type code {code} is not {column.type}"
    if table.signs_known and _signed(column) and (i in table.unsigned) != column.unsigned:
        return "another sign"
    wanted = _metadata(code, column)
    return "" if wanted is None or meta == wanted else f"metadata {meta} is not {wanted}"


def _other_text(table: TableMap, i: int, column: Column, flavour: Flavour) -> str:
    if column.charset is None or i not in table.charsets:
        return ""
    charset = charset_of(table.charsets[i], flavour)
    return "" if charset == column.charset else f"charset {charset} is not {column.charset}"


def _signed(column: Column) -> bool:
    return column.type in ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double")


def _metadata(code: int, column: Column) -> int | None:
    """What a table map says of such a column, None where it says nothing that must be so."""
    if code == 246:
        return (column.precision or 10) << 8 | (column.scale or 0)
    if code in (17, 18, 19):
        return column.digits
    if code == 16:
        return (column.length // 8) << 8 | column.length % 8
    if code in (ENUM, SET):
        return code << 8 | label_bytes(column) if column.labels else None
    if code == 254:
        longest = {"uuid": 16, "inet6": 16, "inet4": 4}.get(column.type) or _longest(column)
        return None if longest is None else _char_metadata(longest)
    if code in (15, 141):
        longest = _longest(column)
        return longest if code == 15 or longest is None else longest + 1
    if code in (252, 140):
        return _LOB_BYTES.get(column.type.removesuffix("text").removesuffix("blob"), 2)
    return None


def _char_metadata(longest: int) -> int:
    return ((254 ^ (longest & 0x300) >> 4) << 8) | (longest & 0xFF)


def _longest(column: Column) -> int | None:
    """Most bytes of a CHAR, VARCHAR or their binary kin; None when the column does not say its length."""
    if column.type == "vector":
        return column.length * 4 or None
    return column.length * (max_bytes(column.charset) if column.charset else 1) if column.length else None


def label_bytes(column: Column) -> int:
    """Bytes of an ENUM's index or of a SET's bits."""
    if column.type == "enum":
        return 1 if len(column.labels) < 256 else 2
    size = (len(column.labels) + 7) // 8
    return 8 if size > 4 else size


def _field(table: TableMap, i: int, column: Column, leaves: bool) -> Field:
    code, meta = table.real_type(i), table.metas[i]
    if code in _INTS:
        return Field(column, "int", _INTS[code], int(column.unsigned))
    if code in (4, 5):
        return Field(column, "float", 4 if code == 4 else 8)
    if code == 246:
        return Field(column, "decimal", meta >> 8, meta & 0xFF)
    if code == 0:
        width = (column.precision or 10) + (0 if column.unsigned else 1) + (1 if column.scale else 0)
        return Field(column, "decimal_old", width, column.scale or 0)
    if code in (17, 18, 19):
        return Field(column, _kind_of({17: "timestamp", 18: "datetime", 19: "time"}[code]), meta)
    if code in (7, 11, 12):
        base = {7: "timestamp", 12: "datetime", 11: "time"}[code]
        return Field(column, _kind_of(f"{base}_{'hires' if column.digits else 'old'}"), column.digits)
    if code == 16:
        return Field(column, "bit", (meta >> 8) * 8 + (meta & 0xFF), (meta >> 8) + bool(meta & 0xFF))
    if code in (ENUM, SET):
        labels = _labels(table, i, column) if leaves else ()
        return Field(column, "enum" if code == ENUM else "set", meta & 0xFF, labels=labels)
    return _string(code, meta, column)


def _labels(table: TableMap, i: int, column: Column) -> tuple[str, ...]:
    if i in table.labels:
        return mapped_labels(table, i, column.charset or "utf8mb4", column.name)
    if any("?" in label for label in column.labels):
        raise Terminal(
            "a label of a column may not be what information_schema shows: it has ? for characters of four bytes",
            table=f"{table.database}.{table.table}",
            column=column.name,
            labels=[label for label in column.labels if "?" in label],
            fix="SET GLOBAL binlog_row_metadata = FULL where the server has it, or ignore the column in `filter`.",
        )
    return column.labels


def _string(code: int, meta: int, column: Column) -> Field:
    if code in (10, 13):
        return Field(column, "date" if code == 10 else "year")
    if code in (252, 140, 245, 255, 242):
        prefix, longest = meta, 0
    elif code in (254, 253):
        # 253 is the VARCHAR of before MySQL 5.0; its metadata is that of a CHAR.
        meta = meta if code == 254 else (meta & 0xFF) << 8 | meta >> 8
        longest = (meta & 0xFF) | (((meta >> 8) & 0x30) ^ 0x30) << 4
        prefix = 1 if longest <= 255 else 2
    else:
        longest, prefix = meta, 1 if meta <= 255 else 2
    if column.type in ("uuid", "inet4", "inet6"):
        return Field(column, _kind_of(column.type), 4 if column.type == "inet4" else 16)
    if column.type in ("json", "vector"):
        return Field(column, _kind_of(column.type), prefix)
    compressed = "_compressed" if code in (140, 141) else ""
    if column.type in _TEXTS:
        return Field(column, _kind_of(f"text{compressed}"), prefix)
    return Field(column, _kind_of(f"binary{compressed}"), prefix, longest if code == 254 else 0)


_KINDS: Final[Mapping[str, ColumnKind]] = {
    kind: kind for kind in (*FIXED, "text", "binary", "text_compressed", "binary_compressed", "json", "vector",
                            "uuid", "inet4", "inet6")
}  # fmt: skip


def _kind_of(name: str) -> ColumnKind:
    return _KINDS[name]
