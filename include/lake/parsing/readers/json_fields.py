"""Values of JSON texts. orjson reads them; a wanted number with a fraction is read again as the exact decimal.

Confluent's JSON serialisers put 0x00 and a schema id of 4 bytes in front, which says nothing about the values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, Literal

import orjson

from include.lake.parsing.fields import FieldPath, ReadFields, WantedValue, invalid

__all__ = ["JsonFraming", "json_reader"]

JsonFraming = Literal["none", "confluent"]
"""none: the text alone; confluent: 0x00 and a schema id of 4 bytes in front of it."""

_HEAD: Final = 5


def json_reader(wanted: Sequence[WantedValue], framing: JsonFraming = "none") -> ReadFields:
    """Reads the values of objects; a step through what has no such member gives None."""
    read = _plain(wanted)
    if framing == "none":
        return read

    def framed(data: bytes) -> Sequence[Any]:
        if len(data) < _HEAD or data[0] != 0:
            raise invalid("the message is not in the Confluent wire format", "JSON: magic", head=data)
        return read(data[_HEAD:])

    return framed


def _plain(wanted: Sequence[WantedValue]) -> ReadFields:
    paths = [want.path for want in wanted]
    loads, broken = orjson.loads, orjson.JSONDecodeError
    only = str(paths[0][0]) if len(paths) == 1 and len(paths[0]) == 1 else None

    def read(data: bytes) -> Sequence[Any]:
        try:
            document = loads(data)
        except broken as error:
            raise invalid("the message is no JSON", f"JSON: {error}", head=data) from None
        if type(document) is not dict:
            raise invalid("the message is no JSON object", "JSON type", head=data)
        if only is not None:
            value = document.get(only)
            return (value,) if type(value) is not float else _exact(data, paths)
        values = [_at(document, path) for path in paths]
        return _exact(data, paths) if float in map(type, values) else values

    return read


def _at(value: Any, path: FieldPath) -> Any:
    for step in path:
        if type(value) is dict:
            value = value.get(step if type(step) is str else str(step))
        elif type(value) is list and type(step) is int:
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def _exact(data: bytes, paths: Sequence[FieldPath]) -> Sequence[Any]:
    """The values with numbers as they are written: as floats, late times of an hour can round into the next."""
    try:
        document = json.loads(data, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise invalid("the message has a number that cannot be read", f"JSON: {error}", head=data) from None
    return [_at(document, path) for path in paths]
