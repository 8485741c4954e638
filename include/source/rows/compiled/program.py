"""A `Layout` as the compiled decoder takes it: what each column's bytes are, in the words of `_decoder.pyi`.

What C does not do itself, Python's own writers do for it, value by value: rare types, charsets of several bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from include.source.charsets.charset import single_byte_table, text_decoder
from include.source.rows.avro import sized
from include.source.rows.json.binary import json_text
from include.source.rows.layout import FIXED, Field, Layout, decimal_groups
from include.source.rows.number import number_writer
from include.source.rows.other_types import inet6_text, uncompressed
from include.source.rows.shape import TableShape
from include.source.rows.temporal import moment_writer

__all__ = ["ColumnOp", "by_of", "keys_of", "ops_of", "text_op"]

ColumnOp = tuple[str, int, int, int, object, object, object]
"""One column: code, size, a, b, data, open, mask."""

_Bytes = tuple[str, int, int, int, object, object]

_ASCII: Final = bytes(range(128))
_PLAIN: Final = frozenset({"year", "datetime", "timestamp", "time", "time_old", "time_hires"})
_DATES: Final = frozenset(
    {"date", "datetime", "datetime_old", "datetime_hires", "timestamp", "timestamp_old", "timestamp_hires"}
)


def ops_of(layout: Layout) -> list[ColumnOp] | None:
    """The columns; None for a layout that is left to the Python decoders, of sizes that no server has."""
    shape = layout.shape
    keys = {*(i for i, _ in shape.key_parts), *shape.by_parts}
    if shape.unsent or not keys.isdisjoint({*shape.skipped, *shape.masked}):
        return None
    try:
        return [_op(shape, i, each) for i, each in enumerate(layout.fields)]
    except (LookupError, ValueError):
        return None


def keys_of(layout: Layout) -> list[tuple[int, bool]]:
    """(index, whether it is a union in the key) of each key column."""
    return list(layout.shape.key_parts)


def by_of(layout: Layout) -> list[int]:
    """Indexes of the columns that choose the partition."""
    return list(layout.shape.by_parts)


def _op(shape: TableShape, i: int, field: Field) -> ColumnOp:
    if i in shape.skipped:
        return (*_skipped(field), None)
    if i in shape.masked_dates:
        return "call", field.size, 0, 0, shape.masked_moment(i, moment_writer(field)), None, None
    return (*_told(field), shape.masked.get(i))


def _skipped(field: Field) -> _Bytes:
    if field.kind in FIXED:
        return "pass", field.size, 0, 0, None, None
    return "pass_sized", _prefix(field), 0, 0, None, None


def _prefix(field: Field) -> int:
    return 1 if field.kind in ("uuid", "inet4", "inet6") else field.a


def _told(field: Field) -> _Bytes:
    kind, size = field.kind, field.size if field.kind in FIXED else _prefix(field)
    if kind == "int":
        code = "signed" if not field.b else "unsigned" if field.a < 8 else "unsigned_64"
        return code, size, 0, 0, None, None
    if kind == "float":
        return "float" if size == 4 else "double", size, 0, 0, None, None
    if kind in _DATES:
        return kind, size, field.a, 0, field.column.name.encode(), None
    if kind in _PLAIN:
        return kind, size, field.a, 0, None, None
    if kind in ("decimal", "decimal_old", "bit", "enum", "set"):
        return _number(field, size)
    return _string(field, size)


def _number(field: Field, size: int) -> _Bytes:
    labels = [label.encode() for label in field.labels]
    if field.kind == "decimal" and 0 < field.a <= 65 and field.b <= field.a:
        code = "decimal_wide" if field.a > 18 else "decimal_long" if size > 8 else "decimal"
        return code, size, field.a, field.b, decimal_groups(field.a, field.b), None
    if field.kind == "decimal_old" and field.a <= 18:
        return "decimal_old", size, field.a, field.b, None, None
    if field.kind == "bit" and field.a <= 64 and size <= 8:
        return "bit", size, field.a, 0, None, None
    if field.kind == "enum":
        return "enum", size, 0, 0, [b"\x02" + sized(label) for label in (b"", *labels)], None
    if field.kind == "set":
        return "set", size, 0, 0, labels, None
    return "call", size, 0, 0, number_writer(field), None


def _string(field: Field, size: int) -> _Bytes:
    kind, opener = field.kind, uncompressed if field.kind.endswith("_compressed") else None
    if kind.startswith("binary"):
        return "binary", size, field.b if kind == "binary" else 0, 0, None, opener
    if kind.startswith("text"):
        code, data = text_op(field.column.charset or "")
        return code, size, 0, 0, data, opener
    if kind in ("vector", "uuid", "inet4"):
        return kind, size, 0, 0, None, None
    if kind == "json":
        return "json", size, 0, 0, json_text, None
    return "call_text", size, 0, 0, (inet6_text, False), None


def text_op(charset: str) -> tuple[str, object]:
    """Code and data of the op that reads text of a charset; raises `Terminal` for no charset of text."""
    if charset in ("utf8mb4", "utf8mb3", "utf8"):
        return "utf8" if charset == "utf8mb4" else "utf8mb3", None
    decode = text_decoder(charset)
    chars = single_byte_table(charset)
    if chars is None:
        return "call_text", (_transcoder(decode), _keeps_ascii(decode))
    entries = [char.encode() for char in chars]
    if max(map(len, entries)) > 3:
        raise ValueError(f"a character of {charset} takes four bytes")
    table = b"".join(entry.ljust(3, b"\0") + bytes((len(entry),)) for entry in entries)
    return "table", (table, _keeps_ascii(decode))


def _keeps_ascii(decode: Callable[[bytes], str]) -> bool:
    """Whether bytes below 0x80 alone are ASCII."""
    try:
        return decode(_ASCII) == _ASCII.decode("ascii")
    except ValueError:
        return False


def _transcoder(decode: Callable[[bytes], str]) -> Callable[[bytes], bytes]:
    return lambda data: decode(data).encode()
