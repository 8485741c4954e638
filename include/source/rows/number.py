"""Numbers and labels of row images → Avro pieces (`avro`), for types whose bytes are not the value itself.

A writer takes a value's bytes and returns its piece; bytes that no server writes raise `ValueError`. Decimals:
`decimal2bin` in the servers' `decimal.c`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from include.source.malformed import Malformed
from include.source.rows.avro import DECIMAL_HEADS, NULL, decimal, long_piece, sized
from include.source.rows.layout import Field, decimal_groups

__all__ = ["NumberWriter", "enum_pieces", "number_writer"]

NumberWriter = Callable[[bytes], bytes]


def number_writer(field: Field) -> NumberWriter:
    """The writer of a decimal (new or old), year, bit, enum, set, float, or unsigned 64-bit integer."""
    if field.kind == "decimal":
        return _decimal(field.a, field.b)
    if field.kind == "decimal_old":
        return _decimal_old(field.a, field.b)
    if field.kind == "year":
        return lambda data: long_piece(data[0] + 1900 if data[0] else 0)
    if field.kind == "bit":
        return _bit(field.a)
    if field.kind == "int":
        return _unsigned
    return _enum(field) if field.kind == "enum" else _set(field)


def enum_pieces(field: Field) -> list[bytes]:
    """By the index that is stored; 0 is what the server keeps of an invalid value and shows as ''."""
    return [b"\x02" + sized(label.encode()) for label in ("", *field.labels)]


def _unsigned(data: bytes) -> bytes:
    value = int.from_bytes(data, "little")
    size = (value.bit_length() + 8) >> 3
    return DECIMAL_HEADS[size] + value.to_bytes(size, "big")


def _decimal(precision: int, scale: int) -> NumberWriter:
    """One function for each precision and scale, without a loop over the groups of digits."""
    sizes, powers = decimal_groups(precision, scale)
    bits = 8 * sum(sizes)
    names: dict[str, Any] = {
        "number": int.from_bytes, "FLIP": 1 << (bits - 1), "EVERY": (1 << bits) - 1, "HEADS": DECIMAL_HEADS,
        "Malformed": Malformed,
    }  # fmt: skip
    lines = ["def write(data):", "    raw = number(data, 'big') ^ FLIP", "    negative = raw & FLIP",
             "    if negative: raw ^= EVERY"]  # fmt: skip
    value, checks, at = "", [], bits
    for i, (size, power) in enumerate(zip(sizes, powers, strict=True)):
        at -= 8 * size
        lines.append(f"    g{i} = raw >> {at} & {(1 << 8 * size) - 1}")
        checks.append(f"g{i} >= {power}")
        value = f"({value}) * {power} + g{i}" if value else f"g{i}"
    lines += [
        f"    if {' or '.join(checks)}: raise Malformed('a group of digits beyond its nines')",
        f"    value = {value}",
        "    if negative: value = -value",
        "    size = ((value if value >= 0 else ~value).bit_length() + 8) >> 3",
        "    return HEADS[size] + value.to_bytes(size, 'big', signed=True)",
    ]
    exec("\n".join(lines), names)  # noqa: S102 - text of our own making
    write: NumberWriter = names["write"]
    return write


def _decimal_old(width: int, scale: int) -> NumberWriter:
    dot = width - scale - 1 if scale else width

    def write(data: bytes) -> bytes:
        text = data.lstrip(b" ")
        sign = text[:1] in (b"-", b"+")
        whole, point, part = text[sign:].partition(b".")
        digits = whole + part
        fits = len(part) == scale and bool(point) == bool(scale) and data[dot : dot + 1] in (b".", b"")
        if not fits or not digits.isdigit() or not digits.isascii():
            raise Malformed(f"{len(data)} bytes are no decimal of {scale} places in {width} characters")
        value = int(digits)
        return b"\x02" + decimal(-value if text[:1] == b"-" else value)

    return write


def _bit(bits: int) -> NumberWriter:
    def write(data: bytes) -> bytes:
        value = int.from_bytes(data, "big")
        if value >> bits:
            raise Malformed(f"a number of more than {bits} bits")
        return b"\x02" + decimal(value) if bits == 64 else long_piece(value)

    return write


def _enum(field: Field) -> NumberWriter:
    pieces = enum_pieces(field)

    def write(data: bytes) -> bytes:
        index = int.from_bytes(data, "little")
        if index >= len(pieces):
            raise Malformed(f"an index beyond the {len(pieces) - 1} labels of an enum")
        return pieces[index]

    return write


def _set(field: Field) -> NumberWriter:
    labels = field.labels
    known: dict[int, bytes] = {0: b"\x02" + NULL}

    def write(data: bytes) -> bytes:
        bits = int.from_bytes(data, "little")
        piece = known.get(bits)
        if piece is None:
            if bits >> len(labels):
                raise Malformed(f"a set beyond its {len(labels)} labels")
            text = ",".join(label for i, label in enumerate(labels) if bits >> i & 1)
            piece = b"\x02" + sized(text.encode())
            if len(known) < 4096:
                known[bits] = piece
        return piece

    return write
