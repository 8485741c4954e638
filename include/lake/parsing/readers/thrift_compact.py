"""Thrift's compact protocol: a struct's wanted values, found by field ids, without generated classes.

A field's byte has its type in the low half, in the high one its id's distance from the field before (0: the id
follows); numbers are zigzag varints, doubles little-endian. A truth value in a field is its type.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from include.lake.parsing.readers.thrift_binary import MOST_DEPTH
from include.lake.parsing.readers.thrift_containers import pass_over

__all__ = ["varint", "walk_compact"]

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_VARINTS: Final = (4, 5, 6)
# Of values in containers; in fields, truth values take none.
_SIZES: Final = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_NONE: Final[dict[str | int, Any]] = {}


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at`, of at most 64 bits, and where it ends."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                raise ValueError("a varint of more than 64 bits")
            return number, at + 1
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than 10 bytes")


def walk_compact(data: bytes, at: int, tree: dict[str | int, Any], values: list[Any], depth: int = 0) -> int:
    """As `walk_binary`, of this protocol."""
    if depth > MOST_DEPTH:
        raise ValueError(f"nested deeper than {MOST_DEPTH}")
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            number, at = varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        below = tree.get(field)
        if below is not None:
            if type(below) is dict:
                if kind != _STRUCT:
                    raise ValueError(f"field {field} is no struct but of type {kind}")
                at = walk_compact(data, at, below, values, depth + 1)
                continue
            value = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(data, at, kind, field)
            for place in below:
                values[place] = value
        if kind > _FALSE:
            at = _skip(data, at, kind, depth + 1)
    return at + 1


def _value(data: bytes, at: int, kind: int, field: int) -> Any:
    if kind in _VARINTS:
        number, _ = varint(data, at)
        return (number >> 1) ^ -(number & 1)
    if kind == _BINARY:
        size, at = varint(data, at)
        if at + size > len(data):
            raise IndexError
        return data[at : at + size]
    if kind == _BYTE:
        return data[at] - 256 if data[at] > 127 else data[at]
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0]
    raise ValueError(f"field {field} of type {kind} is no single value")


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind in _VARINTS:
        return varint(data, at)[1]
    if kind == _BINARY:
        size, at = varint(data, at)
        return at + size
    if kind in _SIZES:
        return at + _SIZES[kind]
    if kind == _STRUCT:
        return walk_compact(data, at, _NONE, [], depth)
    if depth > MOST_DEPTH:
        raise ValueError(f"nested deeper than {MOST_DEPTH}")
    if kind == _MAP:
        count, at = varint(data, at)
        return pass_over(data, at + 1, (data[at] >> 4, data[at] & 15), count, depth, _SIZES, _skip) if count else at
    if kind in (_LIST, _SET):
        head = data[at]
        at += 1
        count = head >> 4
        if count == 15:
            count, at = varint(data, at)
        return pass_over(data, at, (head & 15,), count, depth, _SIZES, _skip)
    raise ValueError(f"no type {kind}")
