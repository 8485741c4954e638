"""Selects columns, and converts pymysql's texts, so that values come as Avro takes them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from include.record.schema import Column

__all__ = ["CONVERSIONS", "keeps_blanks", "quoted", "selected"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - columns carry no zone; all are taken for UTC


def quoted(name: str) -> str:
    """An identifier, in a statement that takes arguments."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def selected(name: str, column: Column | None) -> str:
    """The column in a list of what is selected: the server writes a FLOAT's text with six digits, a BIT's as bytes."""
    if column is not None and column.type == "float":
        return f"{quoted(name)} + 0e0"
    if column is not None and column.type == "bit":
        return f"{quoted(name)} + 0"
    return quoted(name)


def keeps_blanks(collation: str) -> bool:
    """Whether blanks at the end of a text make it another one."""
    return "_nopad_" in collation or "_0900_" in collation


def _datetime_us(text: str | bytes) -> int | None:
    """`2026-11-02 03:04:05.000006` as microseconds since the epoch; a zero date, which is no moment, as null."""
    value = text.decode() if isinstance(text, bytes) else text
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _date_days(text: str | bytes) -> int | None:
    value = text.decode() if isinstance(text, bytes) else text
    try:
        return (dt.date.fromisoformat(value) - _EPOCH.date()).days
    except ValueError:
        return None


def _time_us(text: str | bytes) -> int:
    value = text.decode() if isinstance(text, bytes) else text
    sign = -1 if value.startswith("-") else 1
    hours, minutes, seconds = value.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    return sign * (
        (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or "0")
    )


CONVERSIONS: Final[dict[Any, Any]] = {
    **conversions,
    FIELD_TYPE.DATETIME: _datetime_us,
    FIELD_TYPE.TIMESTAMP: _datetime_us,
    FIELD_TYPE.DATE: _date_days,
    FIELD_TYPE.NEWDATE: _date_days,
    FIELD_TYPE.TIME: _time_us,
}
