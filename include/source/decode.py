"""Row images of the binlog → values as `record.schema` wants them.

One decoder for each (table map, columns): a list of functions `(data, at) -> (value, next)`. Integers are
little-endian; decimals, dates with fractions and times are big-endian (the server's `my_decimal` and `my_time`).
Zero and impossible dates have no number, so they stop the source; NULL alone is None.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from include.errors import Terminal
from include.record.schema import Column
from include.source.events import ENUM, SET, RowOp, TableMap, bits

__all__ = ["Image", "RowDecoder", "charset_decoder"]

Image = dict[str, Any]
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


class RowDecoder:
    """Decodes the rows of one table as one table map described it; `columns` stand in the map's order."""

    def __init__(self, table: TableMap, columns: tuple[Column, ...]) -> None:
        if len(columns) != len(table.types):
            raise Terminal("a table map has another number of columns", table=f"{table.database}.{table.table}")
        self.table = f"{table.database}.{table.table}"
        self._names = [column.name for column in columns]
        self._reads = [_reader(table, i, column) for i, column in enumerate(columns)]

    def rows(self, op: RowOp, body: bytes) -> Iterator[tuple[Image | None, Image | None]]:
        """(before, after) of each row; raises `Terminal` when an image is not full or the event's end does not fit."""
        try:
            yield from self._rows(op, body)
        except (IndexError, struct.error) as error:
            raise Terminal("a rows event is cut short", table=self.table) from error

    def _rows(self, op: RowOp, body: bytes) -> Iterator[tuple[Image | None, Image | None]]:
        width, at = _lenenc(body, 0)
        if width != len(self._names):
            raise Terminal("a rows event has another number of columns than its table map", table=self.table)
        size = (width + 7) // 8
        for _ in range(2 if op == "u" else 1):
            if not all(bits(body[at : at + size], width)):
                raise Terminal(
                    "a row image is not full",
                    table=self.table,
                    fix="Set binlog_row_image = FULL for every session; virtual columns are not read.",
                )
            at += size
        while at < len(body):
            first, at = self._image(body, at, size)
            if op == "u":
                second, at = self._image(body, at, size)
                yield first, second
            else:
                yield (None, first) if op == "c" else (first, None)
        if at != len(body):
            raise Terminal("a rows event does not end where its last row does", table=self.table)

    def _image(self, body: bytes, at: int, size: int) -> tuple[Image, int]:
        nulls = int.from_bytes(body[at : at + size], "little")
        if at + size > len(body):
            raise IndexError
        at += size
        image: Image = {}
        for index, read in enumerate(self._reads):
            if nulls >> index & 1:
                image[self._names[index]] = None
            else:
                image[self._names[index]], at = read(body, at)
        if at > len(body):
            raise IndexError
        return image, at


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


def _reader(table: TableMap, index: int, column: Column) -> Read:
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


def _lenenc(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise IndexError
    return _little(data, at + 1, size), at + 1 + size
