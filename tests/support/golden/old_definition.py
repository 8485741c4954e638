"""The definition file (.frm) of a table of MySQL 4.1 with DECIMALs as text, which no newer server can make.

TRUNCATE then makes its data files, and ALTER may add columns around the old ones: they keep their form. Offsets are
those that `open_binary_frm` of MySQL and MariaDB reads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["OldDecimal", "definition"]

_KEYS_AT, _KEYS_SIZE, _FORM_AT, _FORM_HEAD = 0x1000, 16, 0x2000, 288
_MYISAM, _VERSION, _LATIN1, _DECIMAL = 9, 9, 8, 0
_SIGNED, _NUMBER, _ZEROFILL, _NULLABLE = 0x0001, 0x0002, 0x0004, 0x8000


@dataclass(frozen=True)
class OldDecimal:
    """A nullable column; ZEROFILL is unsigned too."""

    name: str
    precision: int
    scale: int
    unsigned: bool = False
    zerofill: bool = False

    @property
    def width(self) -> int:
        """Characters of a value: digits, a place for the sign, the point."""
        return self.precision + (not (self.unsigned or self.zerofill)) + (self.scale > 0)

    @property
    def flags(self) -> int:
        """What the file says of the column besides its width."""
        sign = 0 if self.unsigned or self.zerofill else _SIGNED
        return _NULLABLE | _NUMBER | sign | (_ZEROFILL if self.zerofill else 0) | self.scale << 8


def definition(columns: Sequence[OldDecimal]) -> bytes:
    """The file's bytes; at most seven columns, as the null bits are one byte."""
    if not 0 < len(columns) < 8:
        raise ValueError(f"{len(columns)} columns; one to seven fit into one byte of null bits")
    size = 1 + sum(column.width for column in columns)
    fields, place = b"", 2
    for row, column in enumerate(columns):
        fields += struct.pack(
            "<BBBHBHH", 4 + row, 2, column.width, column.width, place & 0xFF, place >> 8, column.flags
        )
        fields += bytes((0, 0, 0, _DECIMAL, _LATIN1, 0, 0))
        place += column.width
    names = b"\xff" + b"".join(column.name.encode() + b"\xff" for column in columns) + b"\0"
    form = bytearray(_FORM_HEAD)
    struct.pack_into("<HH", form, 0, _FORM_HEAD + len(fields) + len(names), 0x1000)
    struct.pack_into("<H", form, 256, 1)
    struct.pack_into("<HHHHHH", form, 258, len(columns), 0, size - 1, 0, size, len(names))
    struct.pack_into("<H", form, 282, len(columns))

    file = bytearray(_FORM_AT)
    struct.pack_into("<BBBBHHHIHH", file, 0, 0xFE, 1, _VERSION, _MYISAM, 3, _KEYS_AT, 1, 0x3000, _KEYS_SIZE, size)
    struct.pack_into("<BBHH", file, 26, 0, 2, 8, 8)
    file[38] = _LATIN1
    struct.pack_into("<I", file, 47, _KEYS_SIZE)
    struct.pack_into("<HBI", file, 64, 0x2F2F, 0, _FORM_AT)
    struct.pack_into("<HHHH", file, _KEYS_AT, 0, 0, 2, 0xFF)
    # The row of defaults: all NULL, numbers blank.
    struct.pack_into(f"<B{size - 1}s", file, _KEYS_AT + _KEYS_SIZE, 0xFF, b" " * (size - 1))
    return bytes(file + form + fields + names)
