"""A writer of MySQL's binary JSON, made from its description alone (`json_binary.h`), for tests of the reader."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

__all__ = ["Gap", "Number", "Opaque", "document", "lenenc", "opaque_decimal", "opaque_moment", "opaque_time", "sized"]

_CODES = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}


@dataclass(frozen=True)
class Number:
    """An integer stored as this type (5 to 10), not as the least that holds it."""

    kind: int
    value: int


@dataclass(frozen=True)
class Opaque:
    """A value of a type of column that JSON has not."""

    kind: int
    data: bytes


@dataclass(frozen=True)
class Gap:
    """A value that stands behind `size` bytes which an update in place has left."""

    size: int
    value: Any


def document(value: Any, large: bool = False) -> bytes:
    """The document; containers are large where they must be, or all of them."""
    kind, data = _stored(value, large)
    return bytes((kind,)) + data


def sized(data: bytes) -> bytes:
    """Behind the length, seven bits a byte, the lowest first."""
    size, head = len(data), []
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes((*head, size)) + data


def lenenc(data: bytes) -> bytes:
    """Behind the length as the protocol writes it."""
    size = len(data)
    if size < 251:
        return bytes((size,)) + data
    return (b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else b"\xfd" + struct.pack("<I", size)[:3]) + data


def opaque_decimal(text: str, precision: int) -> Opaque:
    """A decimal of so many digits, as many of them behind the point as `text` has."""
    whole, _, part = text.lstrip("-").partition(".")
    whole = whole.zfill(precision - len(part))[-(precision - len(part)) :] if precision > len(part) else ""
    head = len(whole) % 9
    groups = [whole[:head], *(whole[i : i + 9] for i in range(head, len(whole), 9))]
    groups += [part[i : i + 9] for i in range(0, len(part), 9)]
    data = bytearray()
    for digits in filter(None, groups):
        data += int(digits).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[len(digits)], "big")
    if text.startswith("-"):
        data = bytearray(byte ^ 255 for byte in data)
    data[0] ^= 128
    return Opaque(246, bytes((precision, len(part))) + data)


def opaque_moment(kind: int, y: int, mo: int, d: int, h: int = 0, mi: int = 0, s: int = 0, us: int = 0) -> Opaque:
    """A date (10), datetime (12) or timestamp (7)."""
    day = ((y * 13 + mo) << 5) + d
    return Opaque(kind, struct.pack("<q", (((day << 17) + (h << 12) + (mi << 6) + s) << 24) + us))


def opaque_time(h: int, mi: int, s: int, us: int, sign: int = 1) -> Opaque:
    """A time of the day, or a span."""
    return Opaque(11, struct.pack("<q", sign * ((((h << 12) + (mi << 6) + s) << 24) + us)))


def _stored(value: Any, large: bool) -> tuple[int, bytes]:
    if isinstance(value, Gap):
        return _stored(value.value, large)
    if value is None or isinstance(value, bool):
        return 4, bytes(({None: 0, True: 1, False: 2}[value],))
    if isinstance(value, int):
        value = Number(next(kind for kind in _CODES if _fits(kind, value)), value)
    if isinstance(value, Number):
        return value.kind, struct.pack(_CODES[value.kind], value.value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, sized(value.encode())
    if isinstance(value, Opaque):
        return 15, bytes((value.kind,)) + sized(value.data)
    if not large:
        found = _container(value, 2, False)
        if found is not None:
            return 2 if isinstance(value, list) else 0, found
    found = _container(value, 4, large)
    assert found is not None
    return 3 if isinstance(value, list) else 1, found


def _container(value: dict[str, Any] | list[Any], width: int, large: bool) -> bytes | None:
    """None where a number does not fit."""
    wide = width == 4
    members = list(value) if isinstance(value, list) else [value[key] for key in sorted(value, key=_order)]
    keys = [] if isinstance(value, list) else [key.encode() for key in sorted(value, key=_order)]
    at = 2 * width + len(keys) * (width + 2) + len(members) * (1 + width)
    key_entries, value_entries, data = bytearray(), bytearray(), bytearray()
    for key in keys:
        key_entries += (at + len(data)).to_bytes(4, "little")[: width if at + len(data) < 1 << 8 * width else 0]
        key_entries += len(key).to_bytes(2, "little")
        data += key
    for member in members:
        kind, body = _stored(member, large)
        if kind in (4, 5, 6) or (wide and kind in (7, 8)):
            # A negative number is negative in all the room that its entry has.
            fill = b"\xff" if kind in (5, 7) and body[-1] > 127 else b"\0"
            value_entries += bytes((kind,)) + body.ljust(width, fill)
            continue
        if isinstance(member, Gap):
            data += b"\xee" * member.size
        if at + len(data) >= 1 << 8 * width:
            return None
        value_entries += bytes((kind,)) + (at + len(data)).to_bytes(width, "little")
        data += body
    size = at + len(data)
    if size >= 1 << 8 * width or len(members) >= 1 << 8 * width:
        return None
    head = len(members).to_bytes(width, "little") + size.to_bytes(width, "little")
    return bytes(head + key_entries + value_entries + data)


def _order(key: str) -> tuple[int, bytes]:
    return len(key.encode()), key.encode()


def _fits(kind: int, value: int) -> bool:
    try:
        struct.pack(_CODES[kind], value)
    except struct.error:
        return False
    return True
