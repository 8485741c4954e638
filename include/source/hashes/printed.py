"""The text of a row's key → its values as the server prints them, which is how a person asks for the row."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from include.source.hashes.columns import Compared, ComparedRows

__all__ = ["printed_key", "values_of"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a date and a clock, in no zone
_NUMBER: Final = re.compile(r"-?[0-9]+")
_MICROS: Final = dt.timedelta(microseconds=1)


def printed_key(rows: ComparedRows, text: str) -> dict[str, str | None]:
    """Column → value, times in UTC, binary columns as hex digits; FLOAT and DOUBLE stay as they are in the text."""
    values = zip(rows.key, values_of(text), strict=True)
    return {each.column.name: None if value is None else _printed(each, value) for each, value in values}


def values_of(text: str) -> tuple[str | None, ...]:
    """The values that a row's or a key's text is made of (`source.hashes.plain`); `ValueError` for another text.

    Lengths are those of UTF-8.
    """
    data, at, values = text.encode(), 0, list[str | None]()
    while at < len(data):
        if data[at : at + 1] == b"N":
            values.append(None)
            at += 1
            continue
        colon = data.index(b":", at)
        end = colon + 1 + int(data[at:colon])
        if end > len(data):
            raise ValueError("a text ends within a value")
        values.append(data[colon + 1 : end].decode())
        at = end
    return tuple(values)


def _printed(compared: Compared, value: str) -> str:
    kind, digits = compared.kind, compared.column.digits
    if kind not in ("date", "datetime", "timestamp", "time") or not _NUMBER.fullmatch(value):
        # A date of no calendar is there as the server shows it.
        return value
    number = int(value)
    if kind == "date":
        return str(_EPOCH.date() + dt.timedelta(days=number))
    if kind == "time":
        seconds, micros = divmod(abs(number), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return ("-" if number < 0 else "") + clock + _fraction(micros, digits)
    at = _EPOCH + number * _MICROS
    return at.isoformat(" ", "seconds") + _fraction(at.microsecond, digits)


def _fraction(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""
