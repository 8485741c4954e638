"""Values of a row image → values as `record.schema` wants them: one reader for each column of a table map.

A reader is a function `(data, at) -> (value, next)`. Integers are little-endian; decimals, dates with fractions and
times are big-endian (the server's `my_decimal` and `my_time`). Zero and impossible dates have no number, so they stop
the source; NULL alone is None.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from include.errors import Terminal
from include.record.schema import Column
from include.source.events import ENUM, SET, TableMap

__all__ = ["Read", "charset_decoder", "column_reader"]

Read = Callable[[bytes, int], tuple[Any, int]]

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_INT_BYTES: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
# MySQL's latin1 is Windows' code page 1252, with the five holes as C1 controls.
_CP1252: Final = {
    code: bytes((code,)).decode("cp1252") for code in range(0x80, 0xA0) if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_CODECS: Final = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}


def charset_decoder(charset: str | None, table: str, column: str) -> Callable[[bytes], str]:
    """Bytes of a column's charset → text; raises `Terminal` for a charset that is not read."""
    if charset == "latin1":
        return lambda data: data.decode("latin-1").translate(_CP1252)
    codec = _CODECS.get(charset or "")
    if codec is None:
        raise Terminal(
            "character set is not supported",
            table=table,
            column=column,
            charset=charset,
            allowed=sorted([*_CODECS, "latin1"]),
            fix="Convert the column, or leave the table out of the source's `tables`.",
        )

    def decode(data: bytes) -> str:
        try:
            return data.decode(codec)
        except UnicodeDecodeError as error:
            raise Terminal("text is not in its column's charset", table=table, column=column, got=data.hex()) from error

    return decode


def column_reader(table: TableMap, index: int, column: Column) -> Read:
    """The reader of a column; raises `Terminal` for a type or charset that is not read. Cut data is an `IndexError`."""
    name = f"{table.database}.{table.table}"
    code, meta = table.real_type(index), table.metas[index]

    def invalid(what: str) -> Terminal:
        return Terminal(
            f"{what} cannot be copied without loss",
            table=name,
            column=column.name,
            fix="Mend the row, or leave the table out of the source's `tables`.",
        )

    if code in _INT_BYTES:
        return _integer(_INT_BYTES[code], index in table.unsigned, column)
    if code in (4, 5):
        unpack, size = struct.Struct("<f" if code == 4 else "<d").unpack_from, 4 if code == 4 else 8
        return lambda data, at: (unpack(data, at)[0], at + size)
    if code == 246:
        return _decimal(meta >> 8, meta & 0xFF)
    if code == 10:
        return _date(invalid)
    if code == 13:
        return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
    if code == 17:
        return _timestamp(meta, invalid)
    if code == 18:
        return _datetime(meta, invalid)
    if code == 19:
        return _time(meta)
    if code in (ENUM, SET):
        decode = charset_decoder(column.charset, name, column.name)
        labels = [decode(label) for label in table.labels.get(index, ())] or list(column.labels)
        return _enum(meta & 0xFF, labels, invalid) if code == ENUM else _set(meta & 0xFF, labels, invalid)
    if code in (15, 252, 253, 254):
        return _text(code, meta, column, name)
    raise Terminal(
        "column type is not supported",
        table=name,
        column=column.name,
        type=column.type,
        code=code,
        fix="Leave the table out of the source's `tables`, or drop the column from it.",
    )


def _integer(size: int, unsigned: bool, column: Column) -> Read:
    if unsigned and column.type == "bigint":
        return lambda data, at: (Decimal(_little(data, at, 8)), at + 8)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = data[at : at + size]
        if len(raw) < size:
            raise IndexError
        return int.from_bytes(raw, "little", signed=not unsigned), at + size

    return read


def _decimal(precision: int, scale: int) -> Read:
    whole_groups, whole_rest = divmod(precision - scale, 9)
    part_groups, part_rest = divmod(scale, 9)
    sizes = [_DIGIT_BYTES[whole_rest]] if whole_rest else []
    sizes += [4] * (whole_groups + part_groups)
    powers = [10**whole_rest] if whole_rest else []
    powers += [10**9] * (whole_groups + part_groups)
    if part_rest:
        sizes.append(_DIGIT_BYTES[part_rest])
        powers.append(10**part_rest)
    total = sum(sizes)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = bytearray(data[at : at + total])
        if len(raw) < total:
            raise IndexError
        negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if negative:
            raw = bytearray(b ^ 0xFF for b in raw)
        number, place = 0, 0
        for size, power in zip(sizes, powers, strict=True):
            number = number * power + int.from_bytes(raw[place : place + size], "big")
            place += size
        # By digits, as arithmetic would round to the context's 28.
        return Decimal((int(negative and number > 0), tuple(map(int, str(number))), -scale)), at + total

    return read


def _days(year: int, month: int, day: int, invalid: Callable[[str], Terminal]) -> int:
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise invalid(f"the date {year:04}-{month:02}-{day:02}") from error


def _date(invalid: Callable[[str], Terminal]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = _little(data, at, 3)
        return _days(raw >> 9, raw >> 5 & 15, raw & 31, invalid), at + 3

    return read


def _datetime(digits: int, invalid: Callable[[str], Terminal]) -> Read:
    extra, scale = _FRACTION_BYTES[digits], 10 ** (6 - 2 * _FRACTION_BYTES[digits])

    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = _big(data, at, 5) - (1 << 39)
        month = raw >> 22
        days = _days(month // 13, month % 13, raw >> 17 & 31, invalid)
        seconds = (raw >> 12 & 31) * 3600 + (raw >> 6 & 63) * 60 + (raw & 63)
        part = _big(data, at + 5, extra) * scale if extra else 0
        return (days * 86_400 + seconds) * 1_000_000 + part, at + 5 + extra

    return read


def _timestamp(digits: int, invalid: Callable[[str], Terminal]) -> Read:
    extra, scale = _FRACTION_BYTES[digits], 10 ** (6 - 2 * _FRACTION_BYTES[digits])

    def read(data: bytes, at: int) -> tuple[Any, int]:
        seconds = _big(data, at, 4)
        if seconds == 0:
            raise invalid("the timestamp 0000-00-00 00:00:00")
        return seconds * 1_000_000 + (_big(data, at + 4, extra) * scale if extra else 0), at + 4 + extra

    return read


def _time(digits: int) -> Read:
    extra = _FRACTION_BYTES[digits]
    size, shift, scale = 3 + extra, 8 * extra, 10 ** (6 - 2 * extra)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = _big(data, at, size) - (0x800000 << shift)
        sign, raw = (-1, -raw) if raw < 0 else (1, raw)
        clock, part = raw >> shift, raw & ((1 << shift) - 1)
        seconds = (clock >> 12 & 1023) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
        return sign * (seconds * 1_000_000 + part * scale), at + size

    return read


def _enum(size: int, labels: list[str], invalid: Callable[[str], Terminal]) -> Read:
    texts = ["", *labels]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index = _little(data, at, size)
        if index >= len(texts):
            raise invalid(f"the enum index {index}")
        return texts[index], at + size

    return read


def _set(size: int, labels: list[str], invalid: Callable[[str], Terminal]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        raw = _little(data, at, size)
        if raw >> len(labels):
            raise invalid(f"the set {raw:#x}")
        return ",".join(label for i, label in enumerate(labels) if raw >> i & 1), at + size

    return read


def _text(code: int, meta: int, column: Column, table: str) -> Read:
    if code == 252:
        prefix, longest = meta, 0
    elif code == 254:
        longest = (meta & 0xFF) | (((meta >> 8) & 0x30) ^ 0x30) << 4
        prefix = 1 if longest <= 255 else 2
    else:
        longest, prefix = meta, 1 if meta <= 255 else 2
    binary = column.avro() == "bytes"
    decode = None if binary else charset_decoder(column.charset, table, column.name)
    # BINARY(n) is logged without its trailing zero bytes.
    pad = longest if code == 254 and binary else 0

    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + prefix
        end = start + _little(data, at, prefix)
        if end > len(data):
            raise IndexError
        raw = data[start:end]
        return (decode(raw) if decode else raw.ljust(pad, b"\0")), end

    return read


def _little(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "little")


def _big(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "big")
