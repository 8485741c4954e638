"""Values of a SELECT, as the server's text protocol gives them, → the same Python values that `decode` makes.

The connection reads bytes (no conversion), in UTC and utf8mb4; FLOAT is selected as `f*1e0`, as its own text is cut
to six digits.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from include.errors import Terminal
from include.record.schema import Column, TableSchema

__all__ = ["row_reader", "select_list"]

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000

FromText = Callable[[bytes], Any]


def select_list(table: TableSchema) -> str:
    """The columns to select, in the table's order."""
    return ", ".join(
        f"{_quoted(column.name)} * 1e0" if column.type == "float" else _quoted(column.name) for column in table.columns
    )


def row_reader(table: TableSchema) -> Callable[[tuple[bytes | None, ...]], dict[str, Any]]:
    """Turns a row of `select_list` into an image; raises `Terminal` naming table and column for an invalid date."""
    names = [column.name for column in table.columns]
    reads = [_reader(column) for column in table.columns]

    def read(row: tuple[bytes | None, ...]) -> dict[str, Any]:
        image: dict[str, Any] = {}
        for name, convert, value in zip(names, reads, row, strict=True):
            try:
                image[name] = None if value is None else convert(value)
            except ValueError as error:
                raise Terminal(
                    "a value cannot be copied without loss",
                    table=table.full_name,
                    column=name,
                    got=bytes(value or b"")[:40],
                    fix="Mend the row, or leave the table out of the source's `tables`.",
                ) from error
        return image

    return read


def _reader(column: Column) -> FromText:
    avro = column.avro()
    if column.type == "date":
        return _days
    if column.type in ("datetime", "timestamp"):
        return _moment
    if column.type == "time":
        return _time
    if isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        return lambda value: Decimal(value.decode("ascii"))
    return _SIMPLE[avro if isinstance(avro, str) else str(avro["type"])]


_SIMPLE: Final[dict[str, FromText]] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": lambda value: value.decode("utf-8"),
    "bytes": bytes,
}


def _days(value: bytes) -> int:
    text = value.decode("ascii")
    return dt.date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - _EPOCH_DAY


def _moment(value: bytes) -> int:
    return _days(value[:10]) * _DAY_US + _clock(value[11:])


def _time(value: bytes) -> int:
    return -_clock(value[1:]) if value[:1] == b"-" else _clock(value)


def _clock(value: bytes) -> int:
    whole, _, part = value.decode("ascii").partition(".")
    hours, minutes, seconds = whole.split(":")
    micros = int(part.ljust(6, "0")) if part else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + micros


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
