"""Avro pieces → what `SELECT` shows: texts and JSON values of single columns, of whole rows.

Reads what the decoders write, so what is printed is what was sent. Integers, YEAR and BIT are numbers; DECIMAL and
temporals strings at their declared precision; FLOAT and DOUBLE numbers of the shortest text that reads back; binary
values `{"hex": …}`; VECTOR a list.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from include.record.schema import Column
from include.source.avro import NULL, sized
from include.source.masks import Mask
from include.source.shape import Shape

__all__ = ["json_row", "masked", "text_of"]

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - arithmetic alone
_DAY: Final = dt.date(1970, 1, 1)


def json_row(shape: Shape, row: bytes) -> dict[str, Any]:
    """A row's record as JSON values by column, in the table's order; dates of no calendar as their text."""
    at = 0
    found: dict[str, Any] = {}
    for column in shape.schema.columns:
        found[column.name], at = _field(column, row, at)
    if shape.dates and row[at]:
        count, at = _long(row, at + 1)
        for _ in range(count):
            name, at = _bytes(row, at)
            text, at = _bytes(row, at)
            found[name.decode()] = text.decode()
    return found


def text_of(column: Column, piece: bytes) -> bytes | None:
    """The canonical text of a piece (of binary columns the bytes themselves), None for null."""
    value, _ = _field(column, piece, 0)
    if value is None:
        return None
    if isinstance(value, Mapping):
        return bytes.fromhex(value["hex"])
    return str(value).encode()


def _field(column: Column, data: bytes, at: int) -> tuple[Any, int]:
    if not data[at]:
        return None, at + 1
    at += 1
    avro = column.avro()
    kind = avro if isinstance(avro, str) else avro["type"]
    if kind in ("int", "long"):
        number, at = _long(data, at)
        return _temporal(column, number), at
    if kind == "float":
        return shortest(data[at : at + 4]), at + 4
    if kind == "double":
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == "array":
        return _vector(data, at)
    raw, at = _bytes(data, at)
    if isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        number = int.from_bytes(raw, "big", signed=True)
        return (_decimal(number, int(avro["scale"])) if column.type == "decimal" else number), at
    return ({"hex": raw.hex()} if kind == "bytes" else raw.decode()), at


def _long(data: bytes, at: int) -> tuple[int, int]:
    z = shift = 0
    while True:
        byte = data[at]
        at += 1
        z |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (z >> 1) ^ -(z & 1), at
        shift += 7


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return data[at : at + size], at + size


def _vector(data: bytes, at: int) -> tuple[list[float], int]:
    found: list[float] = []
    count, at = _long(data, at)
    while count:
        found += [shortest(data[at + 4 * i : at + 4 * i + 4]) for i in range(count)]
        count, at = _long(data, at + 4 * count)
    return found, at


def shortest(data: bytes) -> float:
    """The number whose shortest text reads back to this float32."""
    value: float = struct.unpack("<f", data)[0]
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == data:
            return float(text)
    return value


def _decimal(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def _temporal(column: Column, number: int) -> Any:
    if column.type == "date":
        return (_DAY + dt.timedelta(days=number)).isoformat()
    if column.type in ("datetime", "timestamp"):
        moment = _EPOCH + dt.timedelta(microseconds=number)
        return _cut(f"{moment.year:04}-{moment:%m-%d %H:%M:%S}.{moment.microsecond:06}", column.digits)
    if column.type == "time":
        seconds, micros = divmod(abs(number), 1_000_000)
        sign = "-" if number < 0 else ""
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        return sign + _cut(clock, column.digits)
    if column.type == "year":
        return number
    return number


def _cut(text: str, digits: int) -> str:
    """A text with six digits of a fraction, down to `digits`."""
    return text[: len(text) - (6 - digits)] if digits else text[:-7]


def masked(column: Column, mask: Mask) -> Callable[[bytes], bytes]:
    """A mask as pieces want it: of a column's piece the piece that leaves (masks make texts or nulls alone)."""

    def of(piece: bytes) -> bytes:
        value = mask.of(text_of(column, piece))
        return NULL if value is None else b"\x02" + sized(value)

    return of
