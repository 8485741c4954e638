"""Makes the Spark SQL that gives the key range of a lake table's row: the order is the server's.

The server alone knows how its collations sort, so keys with texts have no ranges: such a table is one. Numbers, bytes,
dates and times sort alike on both sides (capture sets a table aside that has a date of no calendar in its key).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from include.errors import Terminal
from include.record.schema import Column, avro_name
from include.source.hashes.columns import ComparedColumn, ComparedRows
from include.source.state.key_range import KeyRange

__all__ = ["part_sql", "sorts_alike"]

_PLAIN: Final = re.compile(r"[0-9: .-]+")
_DIGITS: Final = 38
_BITS: Final = 64
_WHOLE: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_TIMES: Final = {"date": "date", "datetime": "timestamp_ntz", "timestamp": "timestamp"}


def sorts_alike(rows: ComparedRows) -> bool:
    """Whether the key of a table can bound ranges on both sides."""
    return not rows.keyless and all(each.mask is None and _alike(each.column) for each in rows.key)


def part_sql(rows: ComparedRows, parts: Sequence[KeyRange]) -> str:
    """The number of the range in `parts` that a row lies in, which are all ranges of the key, in their order."""
    bounds = [each.upto for each in parts[:-1]]
    if [each.after for each in parts[1:]] != bounds or None in bounds or parts[0].after or parts[-1].upto:
        raise ValueError("ranges are to follow each other, from the first row to the last")
    key = _struct(_value(each) for each in rows.key)
    limits = [_struct(_literal(c, t) for c, t in zip(rows.key, bound or (), strict=True)) for bound in bounds]
    return _branch(key, limits, 0, len(limits))


def _branch(key: str, limits: Sequence[str], first: int, last: int) -> str:
    """A search by halves, spelled out."""
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower, upper = _branch(key, limits, first, middle), _branch(key, limits, middle + 1, last)
    return f"if({key} <= {limits[middle]}, {lower}, {upper})"


def _struct(values: Iterable[str]) -> str:
    found = list(values)
    # One column without the struct, which takes Spark longer.
    fields = ", ".join(f"'k{number}', {value}" for number, value in enumerate(found))
    return found[0] if len(found) == 1 else f"named_struct({fields})"


def _alike(column: Column) -> bool:
    if column.type == "decimal":
        return (column.precision or 10) <= _DIGITS and not column.old
    return column.type in _WHOLE or column.type in _BYTES or column.type in _TIMES


def _value(compared: ComparedColumn) -> str:
    column, name = compared.column, f"`{avro_name(compared.column.name)}`"
    return name if column.type in _BYTES or column.type in _TIMES else f"cast({name} as {_number(column)})"


def _literal(compared: ComparedColumn, text: str) -> str:
    column = compared.column
    if column.type in _BYTES:
        return f"X'{bytes.fromhex(text).hex()}'"
    if not _PLAIN.fullmatch(text):
        raise Terminal("a bound of a range is neither a number nor a time", column=column.name, got=text)
    return f"cast('{text}' as {_TIMES.get(column.type) or _number(column)})"


def _number(column: Column) -> str:
    if column.type == "decimal":
        return f"decimal({column.precision or 10}, {column.scale or 0})"
    wide = (column.type == "bigint" and column.unsigned) or (column.type == "bit" and column.length >= _BITS)
    return "decimal(20, 0)" if wide else "bigint"
