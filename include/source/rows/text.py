"""Values of a SELECT, as the server's text protocol gives them → the same Avro pieces that the binlog's values make.

The connection reads bytes (no conversion), in UTC and utf8mb4. A server that converts a text puts a question mark for
what it cannot convert; so texts of charsets that have such bytes are selected as they are stored, and read as those
of the binlog. FLOAT is selected as `f*1e0`, as its own text is cut to six digits, and so is DOUBLE, as that of a
DOUBLE(m, d) is cut to d decimals.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from include.errors import Terminal
from include.record.schema import DATES, Column
from include.source.charsets.charset import single_byte_table, text_decoder
from include.source.malformed import Malformed, told
from include.source.rows.avro import NULL, decimal, long_piece, sized
from include.source.rows.other_types import vector_piece
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.temporal import parts_piece

__all__ = ["Piece", "moment_reader", "row_reader", "select_list", "text_charset", "value_writer"]

_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_CONNECTION: Final = "utf8mb4"
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})

Piece = Callable[[bytes], bytes]
"""A value's bytes → its piece."""


def select_list(shape: TableShape) -> str:
    """The columns to select: those that leave, in the table's order."""
    return ", ".join(_selected(column) for i, column in enumerate(shape.columns) if i not in shape.skipped)


def _selected(column: Column) -> str:
    name = _quoted(column.name)
    if column.type in ("float", "double"):
        return f"{name} * 1e0"
    return name if text_charset(column) in (None, _CONNECTION) else f"CAST({name} AS BINARY)"


def text_charset(column: Column) -> str | None:
    """The charset in which a SELECT gives the texts of a column; None for other values.

    Raises `Terminal` for a charset that is not known.
    """
    avro = column.avro()
    if (avro if isinstance(avro, str) else avro["type"]) != "string":
        return None
    if column.type not in _TEXTS or column.charset in (None, "utf8", "utf8mb3", "utf8mb4"):
        return _CONNECTION
    table = single_byte_table(column.charset)
    return _CONNECTION if table is not None and all(table) else column.charset


def row_reader(shape: TableShape) -> Callable[[tuple[bytes | None, ...]], EncodedImage]:
    """Turns a row of `select_list` into an image; raises `Terminal` naming table and column for what does not parse."""
    chosen = [(i, column) for i, column in enumerate(shape.columns) if i not in shape.skipped]
    writers = [(i, column.name, column.type if column.type in DATES else "", value_writer(column), column.digits)
               for i, column in chosen]  # fmt: skip
    types = {i: column.type for i, column in chosen}
    width = len(shape.columns)

    def read(row: tuple[bytes | None, ...]) -> EncodedImage:
        pieces: list[bytes | None] = [None] * width
        bad: list[tuple[str, str]] = []
        for (i, name, moment, write, digits), value in zip(writers, row, strict=True):
            try:
                if value is None:
                    pieces[i] = NULL
                elif moment:
                    pieces[i], text = _moment(value, moment, digits)
                    if text is not None:
                        bad.append((name, text))
                else:
                    pieces[i] = write(value)
            except (ValueError, IndexError, OverflowError, struct.error) as error:
                raise Terminal(
                    "a selected value cannot be read",
                    table=shape.table,
                    column=name,
                    type=types[i],
                    bytes=len(value or b""),
                    cause=told(error),
                ) from None
        return shape.image(pieces, bad)

    return read


def value_writer(column: Column) -> Piece:
    """Makes the piece of a value that is neither null nor of a type in `DATES`; raises `ValueError` for other bytes."""
    avro = column.avro()
    if column.type == "time":
        return lambda value: long_piece(_time(value))
    if column.type == "bit":
        whole = column.length == 64
        return lambda value: _bit(int.from_bytes(value, "big"), whole)
    if column.type == "vector":
        return vector_piece
    kind = avro if isinstance(avro, str) else str(avro["type"])
    charset = text_charset(column)
    if charset is not None:
        decode = text_decoder(charset)
        return lambda value: b"\x02" + sized(decode(value).encode())
    if isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        scale = int(avro["scale"])
        return lambda value: b"\x02" + decimal(_unscaled(value, scale))
    return _SIMPLE[kind]


def moment_reader(column: Column) -> Callable[[bytes], tuple[bytes, str | None]]:
    """Makes the piece of a value of a type in `DATES`, and its text where no calendar has it; raises `ValueError`."""
    return lambda value: _moment(value, column.type, column.digits)


def _bit(value: int, whole: bool) -> bytes:
    return b"\x02" + decimal(value) if whole else long_piece(value)


def _unscaled(value: bytes, scale: int) -> int:
    whole, _, part = value.partition(b".")
    if len(part) != scale:
        raise Malformed(f"{len(part)} decimal places, not {scale}")
    return int(whole + part)


_SIMPLE: Final[dict[str, Piece]] = {
    "int": lambda value: long_piece(int(value)),
    "long": lambda value: long_piece(int(value)),
    "float": lambda value: b"\x02" + _FLOAT.pack(float(value)),
    "double": lambda value: b"\x02" + _DOUBLE.pack(float(value)),
    "bytes": lambda value: b"\x02" + sized(value),
}


def _moment(value: bytes, kind: str, digits: int) -> tuple[bytes, str | None]:
    year, month, day = int(value[:4]), int(value[5:7]), int(value[8:10])
    if kind == "date":
        return parts_piece(year, month, day, 0, 0, None)
    micros = _clock(value[11:])
    return parts_piece(year, month, day, micros // 1_000_000, micros % 1_000_000, digits)


def _time(value: bytes) -> int:
    return -_clock(value[1:]) if value[:1] == b"-" else _clock(value)


def _clock(value: bytes) -> int:
    whole, _, part = value.decode("ascii").partition(".")
    hours, minutes, seconds = whole.split(":")
    micros = int(part.ljust(6, "0")) if part else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + micros


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
