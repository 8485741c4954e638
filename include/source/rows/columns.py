"""Columns as `information_schema.columns` tells them, or as a table map does.

COLUMN_TYPE says nearly all: `int(10) unsigned`, `decimal(10,2)/*old*/`, `enum('a','b''c')`, `datetime(3)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import Column
from include.source.binlog.events import ENUM, SET, TableMap
from include.source.charsets.charset import charset_of, max_bytes, text_decoder

__all__ = ["BINARY", "column_of", "hidden_hashes", "labels_of", "mapped", "mapped_labels", "unshown"]

BINARY: Final = 63
"""The collation of bytes that are no text."""

_NUMBERS: Final = re.compile(r"\w+\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_OLD: Final = re.compile(r"/\*\s*old\s*\*/", re.IGNORECASE)
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "0": "\0"}
_BIGINT: Final = 8
_HASH: Final = re.compile(r"DB_ROW_HASH_\d+")
_SIGNED: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal"})
_LENGTHS: Final = frozenset({"char", "varchar", "binary", "varbinary", "bit", "vector"})
_UNSAID: Final = {"bit": 1, "char": 1, "binary": 1}
_DIGITS: Final = frozenset({"datetime", "timestamp", "time"})
_SYNONYMS: Final = {"integer": "int", "geomcollection": "geometrycollection", "dec": "decimal", "numeric": "decimal"}
_TYPES: Final = {
    1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint", 4: "float", 5: "double", 246: "decimal",
    10: "date", 13: "year", 18: "datetime", 17: "timestamp", 19: "time", 16: "bit", ENUM: "enum", SET: "set",
    245: "json", 255: "geometry", 242: "vector",
}  # fmt: skip
_LOBS: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_TEXTS: Final = frozenset({15, 141, 252, 140, 253, 254})


@lru_cache(maxsize=4096)
def column_of(
    name: str,
    column_type: str,
    precision: int | None = None,
    scale: int | None = None,
    digits: int | None = None,
    charset: str | None = None,
) -> Column:
    """Makes a column of a row of `information_schema.columns`.

    Args:
        name: COLUMN_NAME.
        column_type: COLUMN_TYPE.
        precision: NUMERIC_PRECISION, in digits.
        scale: NUMERIC_SCALE, in digits.
        digits: DATETIME_PRECISION, digits of the seconds' fraction; None: as `column_type` says.
        charset: CHARACTER_SET_NAME.
    """
    word = re.match(r"\w*", column_type.strip().lower())
    kind = word[0] if word else ""
    kind = _SYNONYMS.get(kind, kind)
    numbers = _NUMBERS.match(column_type)
    first = int(numbers[1]) if numbers else 0
    if kind == "decimal" and numbers:
        # NUMERIC_PRECISION of an unsigned column from before MySQL 5.0 is one less than what its width follows from.
        precision, scale = first, int(numbers[2] or 0)
    return Column(
        name,
        kind,
        unsigned=kind in _SIGNED and "unsigned" in column_type.lower(),
        precision=int(precision or 10) if kind == "decimal" else None,
        scale=int(scale or 0) if kind == "decimal" else None,
        charset="utf8mb3" if charset == "utf8" else charset,
        labels=labels_of(column_type) if kind in ("enum", "set") else (),
        digits=int(first if digits is None else digits) if kind in _DIGITS else 0,
        length=(first if numbers else _UNSAID.get(kind, 0)) if kind in _LENGTHS else 0,
        old=kind == "decimal" and _OLD.search(column_type) is not None,
    )


def hidden_hashes(table: TableMap, known: Collection[str], hashed: int) -> tuple[Column, ...]:
    """Columns at the end of a MariaDB map that no server shows: the hashes behind UNIQUE over whole TEXTs and BLOBs.

    `known` are the columns that the server shows, `hashed` the number of such indexes, for maps that name no columns.
    """
    names = [f"DB_ROW_HASH_{i + 1}" for i in range(hashed)]
    if table.names:
        last = len(table.names)
        while last and table.types[last - 1] == _BIGINT and _HASH.fullmatch(table.names[last - 1]):
            last -= 1
        names = [name for name in table.names[last:] if name not in known]
    return tuple(Column(name, "bigint", unsigned=True) for name in names)


def unshown(table: TableMap, shown: int, hashed: int, flavour: Flavour) -> tuple[Column, ...]:
    """Columns of a map behind the `shown` first, by the map alone as `mapped`.

    A BIGINT of a MariaDB map without signs is such a hash where there may be any (`hashed` is not 0): it has no sign.
    """
    hashes = hashed > 0 and flavour == "mariadb" and not table.signs_known
    return tuple(
        Column(f"@{i + 1}", "bigint", unsigned=True)
        if hashes and table.types[i] == _BIGINT
        else _mapped(table, i, flavour)
        for i in range(shown, len(table.types))
    )


def labels_of(column_type: str) -> tuple[str, ...]:
    """Labels of an ENUM or SET; the server doubles quotes and escapes backslashes and control characters."""
    labels = (label.replace("''", "'") for label in _LABEL.findall(column_type))
    return tuple(_ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), label) for label in labels)


def mapped(table: TableMap, flavour: Flavour) -> tuple[Column, ...]:
    """Columns as a table map alone tells them; raises `Terminal` naming the first that it does not tell.

    Columns without a name are `@1`, `@2`, … A MariaDB map does not tell UUID and INET from BINARY, VECTOR from
    VARBINARY, the kinds of geometry from each other: these come out as the latter.
    """
    return tuple(_mapped(table, i, flavour) for i in range(len(table.types)))


def _mapped(table: TableMap, i: int, flavour: Flavour) -> Column:
    name = table.names[i] if table.names else f"@{i + 1}"
    code, meta = table.real_type(i), table.metas[i]
    if code in _TEXTS:
        return _string(table, i, name, flavour)
    if code in (7, 11, 12) and flavour == "mysql":
        return Column(name, {7: "timestamp", 11: "time", 12: "datetime"}[code])
    if code not in _TYPES:
        raise _untold(table, name, f"its type (code {code})")
    kind = _TYPES[code]
    if kind in _SIGNED and not table.signs_known:
        raise _untold(table, name, "its sign")
    if code in (ENUM, SET):
        charset = _charset(table, i, name, flavour)
        if i not in table.labels:
            raise _untold(table, name, "its labels")
        return Column(name, kind, charset=charset, labels=mapped_labels(table, i, charset or "utf8mb4", name))
    decimal, digits = code == 246, kind in _DIGITS
    return Column(
        name,
        kind,
        unsigned=kind in _SIGNED and i in table.unsigned,
        precision=meta >> 8 if decimal else None,
        scale=meta & 0xFF if decimal else None,
        digits=meta if digits else 0,
        length=(meta >> 8) * 8 + (meta & 0xFF) if code == 16 else table.vector_dimensions.get(i, 0),
    )


def mapped_labels(table: TableMap, i: int, charset: str, name: str) -> tuple[str, ...]:
    """The labels that a map tells of an ENUM or SET; raises `Terminal` when they are no text of `charset`."""
    decode = text_decoder(charset)
    try:
        return tuple(decode(label) for label in table.labels[i])
    except ValueError as error:
        raise _untold(table, name, f"its labels ({error})") from error


def _string(table: TableMap, i: int, name: str, flavour: Flavour) -> Column:
    code, meta = table.real_type(i), table.metas[i]
    charset = _charset(table, i, name, flavour)
    if code in (252, 140):
        if meta not in _LOBS:
            raise _untold(table, name, f"its type (a length of {meta} bytes)")
        return Column(name, _LOBS[meta] + ("text" if charset else "blob"), charset=charset)
    if code in (253, 254):
        meta = meta if code == 254 else (meta & 0xFF) << 8 | meta >> 8
        longest = (meta & 0xFF) | (((meta >> 8) & 0x30) ^ 0x30) << 4
        kind = ("char" if charset else "binary") if code == 254 else ("varchar" if charset else "varbinary")
    else:
        longest = meta if code == 15 else meta - 1
        kind = "varchar" if charset else "varbinary"
    return Column(name, kind, charset=charset, length=longest // (max_bytes(charset) if charset else 1))


def _charset(table: TableMap, i: int, name: str, flavour: Flavour) -> str | None:
    """None for bytes that are no text."""
    collation = table.charsets.get(i)
    if collation == BINARY:
        return None
    found = None if collation is None else charset_of(collation, flavour)
    if found is None:
        raise _untold(table, name, "its charset" + ("" if collation is None else f" (collation {collation})"))
    return found


def _untold(table: TableMap, column: str, what: str) -> Terminal:
    return Terminal(
        f"the binlog does not tell of a column {what}",
        table=f"{table.database}.{table.table}",
        column=column,
        fix="Give what information_schema.columns says: a server that still has the table, or `--schema`; "
        "SET GLOBAL binlog_row_metadata = FULL for the future.",
    )
