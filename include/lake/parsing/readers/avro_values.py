"""Values in Avro's binary encoding: where they end, and what they are.

Malformed bytes raise `ValueError`, `IndexError` or `struct.error`, or end beyond the data.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from itertools import repeat
from typing import Any, Final

from include.lake.parsing.fields import Instant

__all__ = [
    "FIXED_BYTES",
    "Many",
    "ReadValue",
    "blocks",
    "logical_value",
    "plain_value",
    "size_of",
    "skip_longs",
    "skip_sized",
    "string_value",
]

ReadValue = Callable[[bytes, int], tuple[Any, int]]
"""(data, where a value begins) → the value and where it ends."""

Many = Callable[[bytes, int, int], int]
"""(data, where values begin, how many) → where the last of them ends."""

FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_NANOS: Final = {"timestamp-millis": 1_000_000, "timestamp-micros": 1_000, "timestamp-nanos": 1}
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 10 bytes")


def skip_longs(data: bytes, at: int, count: int) -> int:
    """Where so many ints, longs or enums from `at` on end."""
    for _ in repeat(None, count):
        start = at
        while data[at] > 0x7F:
            at += 1
        if at - start > 9:
            raise ValueError("a number of more than 10 bytes")
        at += 1
    return at


def size_of(data: bytes, at: int) -> tuple[int, int]:
    """The length or index at `at`, which cannot be negative, and where it ends."""
    size, at = _long(data, at)
    if size < 0:
        raise ValueError(f"a length of {size}")
    return size, at


def skip_sized(data: bytes, at: int, count: int) -> int:
    """Where so many strings or bytes from `at` on end."""
    for _ in repeat(None, count):
        twice = data[at]
        at += 1
        if twice > 0x7F:
            more = data[at]
            if more > 0x7F:
                size, at = size_of(data, at - 1)
                at += size
                continue
            twice = twice & 0x7F | more << 7
            at += 1
        if twice & 1:
            raise ValueError("a negative length")
        at += twice >> 1
    return at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = size_of(data, at)
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def string_value(data: bytes, at: int) -> tuple[str, int]:
    """The string at `at` and where it ends."""
    body, at = _bytes(data, at)
    return body.decode(), at


def blocks(data: bytes, at: int, items: Many) -> int:
    """Where the array or map at `at` ends; `items` goes over each of its blocks in turn."""
    while True:
        count, at = _long(data, at)
        if count == 0:
            return at
        if count < 0:
            count, (_, at) = -count, size_of(data, at)
        if count > len(data):
            # Items of no bytes would take as long as a message says.
            raise ValueError(f"{count} items in {len(data)} bytes")
        at = items(data, at, count)


def plain_value(schema: Any, kind: str) -> ReadValue:
    """What reads values of a type, as they are without logical types; of a container it refuses them."""
    match kind:
        case "null":
            return lambda _, at: (None, at)
        case "boolean":
            return lambda data, at: (data[at] != 0, at + 1)
        case "int" | "long":
            return _long
        case "float":
            return lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4)
        case "double":
            return lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8)
        case "string":
            return string_value
        case "bytes":
            return _bytes
        case "enum":
            symbols = schema["symbols"]

            def symbol(data: bytes, at: int) -> tuple[str, int]:
                index, at = size_of(data, at)
                return symbols[index], at

            return symbol
        case "fixed":
            size = schema["size"]
            return lambda data, at: (data[at : at + size], at + size)

    def container(_: bytes, at: int) -> tuple[Any, int]:
        raise ValueError(f"a wanted value is a {kind}, of which a field has to be named; byte {at}")

    return container


def logical_value(schema: Any, *, instant: bool) -> Callable[[Any], Any] | None:
    """What makes the value that a logical type stands for, of those that names and times are made of."""
    kind = schema.get("logicalType")
    if kind in _NANOS and instant and schema["type"] == "long":
        nanos = _NANOS[kind]
        return lambda raw: Instant(raw * nanos)
    if kind == "date" and schema["type"] == "int":
        return lambda raw: dt.date.fromordinal(raw + _EPOCH_DAY).isoformat()
    if kind == "decimal" and schema["type"] in ("bytes", "fixed"):
        scale = int(schema.get("scale", 0))
        return lambda raw: _decimal(int.from_bytes(raw, "big", signed=True), scale)
    if kind == "uuid" and schema["type"] == "fixed":
        return lambda raw: str(uuid.UUID(bytes=raw))
    return None


def _decimal(unscaled: int, scale: int) -> Decimal:
    if abs(unscaled) >= 1 << 256:
        raise ValueError("a wanted decimal of more than 76 digits")
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
