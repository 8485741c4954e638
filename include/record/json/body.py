"""Avro values as JSON that means the same everywhere.

| Avro | JSON |
|---|---|
| decimal | text without exponent, all its digits: `"12.30"` |
| timestamp-millis, -micros | ISO 8601 in UTC with microseconds and `Z` |
| local-timestamp-* | the same without a zone |
| date; time | `2026-11-02`; `03:04:05.000006` |
| bytes, fixed | base64 |
| uuid | its text |
| float, double | number; NaN and infinities are refused, as JSON has none |
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import orjson

from include.errors import InvalidRecord

__all__ = ["body_json", "canonical", "plain"]


def canonical(source: Any) -> bytes:
    """Parsed JSON as the one text that all equal values have: names sorted, numbers as orjson writes them."""
    return orjson.dumps(source, option=orjson.OPT_SORT_KEYS)


def body_json(value: Any) -> bytes:
    """`value` as canonical JSON (`canonical`). Raises `InvalidRecord`."""
    try:
        return canonical(plain(value))
    except TypeError as error:
        raise InvalidRecord("value has no JSON form", reason=str(error)) from error


def plain(value: Any) -> Any:  # noqa: C901 - one branch for each row of the table above
    """`value` with every part in its JSON form, by the table above."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRecord("value holds a number that JSON lacks", reason=repr(value))
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.time):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise InvalidRecord("value has no JSON form", reason=type(value).__name__)
