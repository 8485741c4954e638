"""Thrift's binary protocol: a struct's wanted values, found by field ids, without generated classes.

A struct is fields (type in 1 byte, id in 2, value) up to a byte 0; numbers are big-endian. Each value takes at least
a byte, so that no count can be greater than the bytes left.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from include.lake.parsing.readers.thrift_containers import pass_over

__all__ = ["MOST_DEPTH", "walk_binary"]

MOST_DEPTH: Final = 64
"""Structs and containers inside of each other, at most."""

_BOOL, _STRING, _STRUCT, _MAP, _SET, _LIST = 2, 11, 12, 13, 14, 15
# By type; 16 is the UUID of newer versions.
_SIZES: Final = {_BOOL: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}
_NUMBERS: Final = {3: struct.Struct(">b"), 4: struct.Struct(">d"), 6: struct.Struct(">h"), 8: struct.Struct(">i")} | {
    10: struct.Struct(">q")
}
_HEAD: Final = struct.Struct(">Bh")
_NONE: Final[dict[str | int, Any]] = {}


def walk_binary(data: bytes, at: int, tree: dict[str | int, Any], values: list[Any], depth: int = 0) -> int:
    """Walk over the struct at `at`, filling `values` by the tree of `fields.plan`; where it ends.

    Of a field that stands twice the last counts. `ValueError`, `IndexError` or `struct.error` for bytes that are no
    struct.
    """
    if depth > MOST_DEPTH:
        raise ValueError(f"nested deeper than {MOST_DEPTH}")
    while kind := data[at]:
        field = _HEAD.unpack_from(data, at)[1]
        at += 3
        below = tree.get(field)
        if below is not None:
            if type(below) is dict:
                if kind != _STRUCT:
                    raise ValueError(f"field {field} is no struct but of type {kind}")
                at = walk_binary(data, at, below, values, depth + 1)
                continue
            value = _value(data, at, kind, field)
            for place in below:
                values[place] = value
        if kind in _SIZES:
            at += _SIZES[kind]
        else:
            at = _skip(data, at, kind, depth + 1)
    return at + 1


def _value(data: bytes, at: int, kind: int, field: int) -> Any:
    if kind in _NUMBERS:
        return _NUMBERS[kind].unpack_from(data, at)[0]
    if kind == _STRING:
        return data[at + 4 : _sized(data, at)]
    if kind == _BOOL:
        return data[at] != 0
    raise ValueError(f"field {field} of type {kind} is no single value")


def _sized(data: bytes, at: int) -> int:
    """Where the bytes whose length stands at `at` end."""
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if end > len(data):
        raise IndexError
    return end


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind == _STRING:
        return _sized(data, at)
    if kind == _STRUCT:
        return walk_binary(data, at, _NONE, [], depth)
    if depth > MOST_DEPTH:
        raise ValueError(f"nested deeper than {MOST_DEPTH}")
    if kind == _MAP:
        return pass_over(
            data, at + 6, (data[at], data[at + 1]), int.from_bytes(data[at + 2 : at + 6], "big"), depth, _SIZES, _skip
        )
    if kind in (_LIST, _SET):
        return pass_over(data, at + 5, (data[at],), int.from_bytes(data[at + 1 : at + 5], "big"), depth, _SIZES, _skip)
    raise ValueError(f"no type {kind}")
