"""Avro pieces → what `SELECT` shows: texts and JSON values of single columns, of whole rows.

Reads what the decoders write, so what is printed is what was sent. Integers, YEAR and BIT are numbers; DECIMAL and
temporals strings at their declared precision; FLOAT and DOUBLE numbers of the shortest text that reads back (`"NaN"`
and infinities, which no server stores, strings); binary values `{"hex": …}`; VECTOR a list.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from include.policy.masks import Mask
from include.record.schema import Column
from include.record.value_texts import shortest, temporal_text
from include.source.rows.avro import NULL, sized
from include.source.rows.shape import Invalid, TableShape

__all__ = ["RowRenderer", "json_row", "masked", "masked_text", "text_of"]

_Read = Callable[[bytes, int], tuple[Any, int]]
"""(data, at) → (JSON value, end) of a value whose branch of the union has been read."""


class RowRenderer:
    """JSON values of the rows of one shape, by column, in the table's order; dates of no calendar as their text."""

    def __init__(self, shape: TableShape) -> None:
        self._dates = shape.dates
        self._fields = [(column.name, _reader(column)) for column in shape.schema.columns]
        self._places = [
            (i, column.name, _reader(column)) for i, column in enumerate(shape.columns) if i not in shape.skipped
        ]

    def row(self, row: bytes) -> dict[str, Any]:
        """Of a row's record."""
        offset = 0
        values: dict[str, Any] = {}
        for name, read in self._fields:
            if row[offset]:
                values[name], offset = read(row, offset + 1)
            else:
                values[name] = None
                offset += 1
        if self._dates and row[offset]:
            count, offset = _long(row, offset + 1)
            for _ in range(count):
                raw, offset = _bytes(row, offset)
                text, offset = _bytes(row, offset)
                values[raw.decode()] = text.decode()
        return values

    def cells(self, pieces: Sequence[bytes | None], invalid: Invalid) -> dict[str, Any]:
        """Of the pieces of all columns; those that are None are left out."""
        values: dict[str, Any] = {}
        for i, name, read in self._places:
            piece = pieces[i]
            if piece is not None:
                values[name] = read(piece, 1)[0] if piece[0] else None
        values.update((name, text) for name, text in invalid if name in values)
        return values


def json_row(shape: TableShape, row: bytes) -> dict[str, Any]:
    """A row's record as `RowRenderer.row` gives it."""
    return RowRenderer(shape).row(row)


def text_of(column: Column, piece: bytes) -> bytes | None:
    """The canonical text of a piece (of binary columns the bytes themselves), None for null."""
    if not piece[0]:
        return None
    value, _ = _reader(column)(piece, 1)
    if isinstance(value, Mapping):
        return bytes.fromhex(value["hex"])
    return str(value).encode()


@lru_cache(maxsize=4096)
def _reader(column: Column) -> _Read:
    avro = column.avro()
    kind = avro if isinstance(avro, str) else avro["type"]
    if kind in ("int", "long"):
        show = temporal_text(column)
        return _long if show is None else lambda data, at: _through(show, _long(data, at))
    if isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        scale = int(avro["scale"])
        if column.type == "decimal":
            return lambda data, at: _through(lambda raw: _decimal(_signed(raw), scale), _bytes(data, at))
        return lambda data, at: _through(_signed, _bytes(data, at))
    return _SIMPLE[kind]


def _through(change: Callable[[Any], Any], found: tuple[Any, int]) -> tuple[Any, int]:
    return change(found[0]), found[1]


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


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


def _vector(data: bytes, at: int) -> tuple[list[float | str], int]:
    numbers: list[float | str] = []
    count, at = _long(data, at)
    while count:
        numbers += [_finite(shortest(data[at + 4 * i : at + 4 * i + 4])) for i in range(count)]
        count, at = _long(data, at + 4 * count)
    return numbers, at


_SIMPLE: Final[dict[str, _Read]] = {
    "float": lambda data, at: (_finite(shortest(data[at : at + 4])), at + 4),
    "double": lambda data, at: (_finite(struct.unpack_from("<d", data, at)[0]), at + 8),
    "array": _vector,
    "string": lambda data, at: _through(bytes.decode, _bytes(data, at)),
    "bytes": lambda data, at: _through(lambda raw: {"hex": raw.hex()}, _bytes(data, at)),
}


def _finite(value: float) -> float | str:
    """JSON has no number for the others."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def masked(column: Column, mask: Mask) -> Callable[[bytes], bytes]:
    """A mask as pieces want it: of a column's piece the piece that leaves (masks make texts or nulls alone)."""

    def of(piece: bytes) -> bytes:
        return _piece(mask.of(text_of(column, piece)))

    return of


def masked_text(mask: Mask) -> Callable[[str], bytes]:
    """A mask of texts that stand for values which have no piece: dates of no calendar."""
    return lambda text: _piece(mask.of(text.encode()))


def _piece(value: bytes | None) -> bytes:
    return NULL if value is None else b"\x02" + sized(value)
