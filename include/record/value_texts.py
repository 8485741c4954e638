"""Texts of values, as `SELECT` shows them: what masks see, on whatever way a value has come.

FLOAT and DOUBLE have the shortest text that reads back, YEAR and BIT are numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from include.record.schema import Column

__all__ = ["shortest", "temporal_text", "value_text"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - arithmetic alone
_DAY: Final = dt.date(1970, 1, 1)
_LEAST_NORMAL: Final = 2.0**-126


def value_text(column: Column, value: Any) -> bytes:
    """The text of a value as Avro takes it (times as integers), in UTF-8; of bytes they themselves. Not of None."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}".encode()
    if isinstance(value, float):
        return str(shortest(struct.pack("<f", value)) if column.type == "float" else value).encode()
    show = temporal_text(column) if isinstance(value, int) else None
    return (str(value) if show is None else show(value)).encode()


def temporal_text(column: Column) -> Callable[[int], str] | None:
    """Makes the text of the column's values, days or microseconds; None for a column that holds no times."""
    digits = column.digits
    if column.type == "date":
        return lambda days: (_DAY + dt.timedelta(days=days)).isoformat()
    if column.type in ("datetime", "timestamp"):

        def moment(us: int) -> str:
            at = _EPOCH + dt.timedelta(microseconds=us)
            return _cut(f"{at.year:04}-{at:%m-%d %H:%M:%S}.{at.microsecond:06}", digits)

        return moment
    if column.type == "time":

        def clock(us: int) -> str:
            seconds, micros = divmod(abs(us), 1_000_000)
            text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
            return ("-" if us < 0 else "") + _cut(text, digits)

        return clock
    return None


def shortest(data: bytes) -> float:
    """The number whose shortest text reads back to this float32."""
    value: float = struct.unpack("<f", data)[0]
    if not math.isfinite(value):
        return value
    # Six digits are always told apart, but by those too small to have all their bits.
    for digits in range(1 if abs(value) < _LEAST_NORMAL else 6, 10):
        text = float(f"{value:.{digits}g}")
        if struct.pack("<f", text) == data:
            return text
    return value


def _cut(text: str, digits: int) -> str:
    """A text with six digits of a fraction, down to `digits`."""
    return text[: len(text) - (6 - digits)] if digits else text[:-7]
