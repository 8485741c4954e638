"""Single rows that are to be read again: their keys as people and audits write them, as SQL, and as the log has them.

A key is a JSON object, column → its value as the server prints it, times in UTC; of binary columns hex digits, of bits
a number: `{"order_id": "7"}`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from include.errors import Terminal
from include.record.schema import DATES, Column
from include.source.rows.avro import NULL, sized
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text import moment_reader, text_charset, value_writer
from include.source.snapshot.key_order import quoted

__all__ = ["BINARY", "MOST_KEYS", "WantedKeys", "key_text"]

MOST_KEYS: Final = 1_000
"""Of one request: resolved records carry them until it is done."""
BINARY: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "bit"})
_ROUNDED: Final = frozenset({"float", "double"})
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PRESENT: Final = b"\x02"


def key_text(key: Mapping[str, str]) -> str:
    """A key as a request has it."""
    return orjson.dumps(dict(key), option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True)
class WantedKeys:
    """Keys of one table; `columns` are those of its key, in its order."""

    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, shape: TableShape, key: Sequence[str], texts: Iterable[str]) -> WantedKeys:
        """Keys of a table whose key is made of the columns `key`.

        Raises:
            Terminal: a text is no key of this table, or the table's rows cannot be asked for one by one.
        """
        known = {column.name: column for column in shape.columns}
        columns = tuple(known[name] for name in key)
        if why := _why_not(shape, columns):
            raise Terminal("single rows of a table cannot be read again", table=shape.table, why=why, fix=_WHOLE)
        return cls(columns, tuple(_values(shape.table, key, text) for text in texts))

    @property
    def condition(self) -> str:
        """SQL that is true of the rows with these keys; values only as digits."""
        if len(self.columns) == 1:
            values = ", ".join(_literal(self.columns[0], value) for (value,) in self.keys)
            return f"{quoted(self.columns[0].name)} IN ({values})"
        return "(" + " OR ".join(f"({self._equal(key)})" for key in self.keys) + ")"

    def _equal(self, key: tuple[str, ...]) -> str:
        pairs = zip(self.columns, key, strict=True)
        return " AND ".join(f"{quoted(column.name)} = {_literal(column, value)}" for column, value in pairs)

    def absent(self, shape: TableShape, found: Collection[bytes]) -> list[EncodedImage]:
        """Images of the keys that are not among those of images that were found: all other columns are null.

        A collation may take two keys for one; the log does not.

        Raises:
            Terminal: some are not, and other columns than the key's would say in which partition they were.
        """
        places = {column.name: place for place, column in enumerate(shape.columns)}
        absent: list[list[bytes | None]] = []
        for key in self.keys:
            pieces: list[bytes | None] = [None if i in shape.skipped else NULL for i in range(len(shape.columns))]
            for column, value in zip(self.columns, key, strict=True):
                pieces[places[column.name]] = _piece(shape.table, column, value)
            if shape.key_of(pieces) not in found:
                absent.append(pieces)
        if absent and not {*shape.by} <= {column.name for column in self.columns}:
            why = "some are gone, and other columns than their key's say in which partition they were"
            raise Terminal("single rows of a table cannot be read again", table=shape.table, why=why, fix=_WHOLE)
        return [shape.image(pieces, ()) for pieces in absent]


_WHOLE: Final = "Read the table whole: `lyrebird capture reread` without keys."


def _why_not(shape: TableShape, columns: Sequence[Column]) -> str:
    if not columns:
        return "it has no key"
    if shape.until is not None:
        return "it keeps what its rows were"
    if any(column.type in _ROUNDED for column in columns):
        return "its key has a FLOAT or DOUBLE, which no text names exactly"
    return ""


def _values(table: str, key: Sequence[str], text: str) -> tuple[str, ...]:
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or parsed.keys() != {*key} or not all(isinstance(v, str) for v in parsed.values()):
        raise _strange(table, text, f"expected a JSON object with the texts of {', '.join(key)}")
    return tuple(parsed[name] for name in key)


def _literal(column: Column, value: str) -> str:
    if column.type in _NUMBERS:
        if not _NUMBER.fullmatch(value) or not _within(column, value):
            raise _strange("", value, f"no number for {column.name}")
        return value
    if column.type in BINARY:
        return f"x'{_bytes(column, value).hex()}'"
    return f"_utf8mb4 x'{value.encode().hex()}'"


def _within(column: Column, value: str) -> bool:
    """Whether an integer fits its column: another no row has, and no record could hold."""
    bits = _BITS.get(column.type)
    if bits is None:
        return True
    if "." in value:
        return False
    least = 0 if column.unsigned else -(1 << bits - 1)
    return least <= int(value) < least + (1 << bits)


def _bytes(column: Column, value: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise _strange("", value, f"no hex digits for {column.name}") from None


def _piece(table: str, column: Column, value: str) -> bytes:
    try:
        if column.type == "bit":
            return value_writer(column)(int(value).to_bytes(8, "big"))
        if column.type in BINARY:
            return value_writer(column)(_bytes(column, value))
        if column.type in DATES:
            return moment_reader(column)(value.encode())[0]
        if text_charset(column) is not None:
            # Already decoded, whatever the server keeps it in.
            return _PRESENT + sized(value.encode())
        return value_writer(column)(value.encode())
    except (ValueError, IndexError, OverflowError) as error:
        raise _strange(table, value, f"no {column.type} for {column.name}") from error


def _strange(table: str, text: str, reason: str) -> Terminal:
    return Terminal(
        "not a key of the table",
        **({"table": table} if table else {}),
        got=text[:200],
        reason=reason,
        fix='Write it as the server prints it: {"order_id": "7"}.',
    )
