"""Protobuf's wire format: tags (field number, wire type) and values.

Groups, which nobody makes any more, are passed over; numbers come unsigned, as they stand on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from include.lake.parsing.readers.thrift_compact import varint

__all__ = ["FIXED32", "FIXED64", "GROUP", "SIZED", "VARINT", "fields_of", "skip"]

VARINT, FIXED64, SIZED, GROUP, _END, FIXED32 = range(6)
_MOST_DEPTH: Final = 64


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value of each field in turn, groups left out; `ValueError` or `IndexError` for a bad message."""
    offset, size = 0, len(data)
    while offset < size:
        tag, offset = varint(data, offset)
        number, kind = tag >> 3, tag & 7
        start = offset
        offset = skip(data, offset, number, kind)
        if offset > size:
            raise ValueError("the message is cut short")
        if kind == VARINT:
            yield number, varint(data, start)[0]
        elif kind == SIZED:
            length, start = varint(data, start)
            yield number, data[start : start + length]
        elif kind != GROUP:
            yield number, int.from_bytes(data[start:offset], "little")


def skip(data: bytes, at: int, number: int, kind: int, depth: int = 0) -> int:
    """Where the value at `at` of the field `number` ends; beyond the data when it is cut short."""
    if not 0 < number < 1 << 29:
        raise ValueError(f"no field number {number}")
    if kind == VARINT:
        return varint(data, at)[1]
    if kind == SIZED:
        size, at = varint(data, at)
        return at + size
    if kind == FIXED64:
        return at + 8
    if kind == FIXED32:
        return at + 4
    if kind != GROUP or depth > _MOST_DEPTH:
        raise ValueError(f"wire type {kind} of field {number} at byte {at}")
    while True:
        tag, at = varint(data, at)
        if tag & 7 == _END:
            if tag >> 3 != number:
                raise ValueError(f"group {number} ends as {tag >> 3}")
            return at
        at = skip(data, at, tag >> 3, tag & 7, depth + 1)
