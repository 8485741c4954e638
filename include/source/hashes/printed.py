"""Values of a row's text, and those of a key as the server prints them: so a person asks for the row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from include.source.hashes.columns import ComparedColumn, ComparedRows

__all__ = ["printed_date", "printed_key", "printed_moment", "values_of"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a date and a clock, in no zone
_MICROS: Final = dt.timedelta(microseconds=1)
_BETWEEN: Final = b";"
_NULL: Final = b"N"


def printed_key(rows: ComparedRows, text: str) -> dict[str, str | None]:
    """Column → value, times in UTC, binary columns as hex digits; FLOAT and DOUBLE stay as they are in the text."""
    values = zip(rows.key, values_of(rows.key, text), strict=True)
    return {
        each.column.name: _clock(int(value), each.column.digits) if value and each.kind == "time" else value
        for each, value in values
    }


def values_of(columns: Sequence[ComparedColumn], text: str) -> tuple[str | None, ...]:
    """The values that the text of a row, or of a key, with these columns is made of; `ValueError` for another text."""
    data, start, values = text.encode(), 0, list[str | None]()
    for column in columns:
        end = data.find(_BETWEEN, start)
        end = len(data) if end < 0 else end
        value: bytes | None = data[start:end]
        if value == _NULL:
            value = None
        elif column.sized:
            start, end = end + 1, end + 1 + int(data[start:end])
            value = data[start:end]
        if start > len(data) or end > len(data):
            raise ValueError("a text ends within a value")
        values.append(None if value is None else value.decode())
        start = end + 1
    if start != len(data) + 1:
        raise ValueError("a text goes on behind its values")
    return tuple(values)


def printed_date(days: int) -> str:
    """Of days since 1970-01-01."""
    return str(_EPOCH.date() + dt.timedelta(days=days))


def printed_moment(micros: int, digits: int) -> str:
    """Of microseconds since 1970-01-01, with so many digits behind the point."""
    at = _EPOCH + micros * _MICROS
    return at.isoformat(" ", "seconds") + _fraction(at.microsecond, digits)


def _clock(number: int, digits: int) -> str:
    seconds, micros = divmod(abs(number), 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return ("-" if number < 0 else "") + text + _fraction(micros, digits)


def _fraction(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""
