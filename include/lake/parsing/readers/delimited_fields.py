"""Columns of delimited text: by number from 1, or by the names of declared columns. An empty column is no value."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

from include.lake.parsing.fields import FieldPath, ReadFields, WantedValue, invalid, shown

__all__ = ["delimited_reader"]


def delimited_reader(
    wanted: Sequence[WantedValue], delimiter: str, columns: Sequence[str], quote: str | None
) -> ReadFields:
    """Reads columns as bytes; a line end after the last is none of it.

    With `columns` a message of another number of columns is refused. `quote`: values may stand between two of it,
    doubled inside (RFC 4180); such messages are UTF-8. `ValueError` for a field that is no column.
    """
    places = [_place(want.path, columns) for want in wanted]
    most, number = max(places, default=0), len(columns)
    between = delimiter.encode()

    def read(data: bytes) -> Sequence[Any]:
        cells = data.rstrip(b"\r\n").split(between) if quote is None else _quoted(data, delimiter, quote)
        if number and len(cells) != number:
            raise invalid(f"a line of {len(cells)} columns, not {number}", "columns", head=data)
        if len(cells) <= most:
            raise invalid(f"a line of {len(cells)} columns has no column {most + 1}", "columns", head=data)
        return [cells[place] or None for place in places]

    return read


def _place(path: FieldPath, columns: Sequence[str]) -> int:
    step = path[0] if len(path) == 1 else None
    if isinstance(step, int) and 1 <= step <= (len(columns) or 10_000):
        return step - 1
    if step in columns:
        return columns.index(str(step))
    raise ValueError(f"{shown(path)} is no column: write its number from 1, or declare columns")


def _quoted(data: bytes, delimiter: str, quote: str) -> list[bytes]:
    try:
        rows = list(csv.reader([data.decode().rstrip("\r\n")], delimiter=delimiter, quotechar=quote, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise invalid("the line cannot be split", f"columns: {error}", head=data) from None
    if len(rows) != 1:
        raise invalid("not one line", "columns", head=data)
    return [cell.encode() for cell in rows[0]]
