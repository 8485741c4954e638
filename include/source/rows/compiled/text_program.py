"""The columns of a SELECT as the compiled reader of its rows takes them, in the words of `_decoder.pyi`."""

from __future__ import annotations

from typing import Final

from include.record.schema import Column
from include.source.rows.compiled.program import ColumnOp, text_op
from include.source.rows.shape import TableShape
from include.source.rows.text import moment_reader, text_charset, value_writer

__all__ = ["SelectedColumns", "text_columns"]

SelectedColumns = tuple[list[ColumnOp], list[tuple[int, bool]], list[int]]
"""The columns that are selected; (place among them, whether it is a union) of the key's; those of the partition."""

_MOST_DIGITS: Final = 18
_INTS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "year"})
_MOMENTS: Final = {"datetime": "text_datetime", "timestamp": "text_datetime", "date": "text_date"}
_NUMBERS: Final = {"float": "text_float", "double": "text_double", "time": "text_time"}


def text_columns(shape: TableShape) -> SelectedColumns | None:
    """What `text.select_list` selects; None for a shape that is left to Python."""
    keys = {*(i for i, _ in shape.key_parts), *shape.by_parts}
    if not keys.isdisjoint({*shape.skipped, *shape.masked}):
        return None
    chosen = [i for i in range(len(shape.columns)) if i not in shape.skipped]
    place = {i: at for at, i in enumerate(chosen)}
    return (
        [_op(shape, i) for i in chosen],
        [(place[i], union) for i, union in shape.key_parts],
        [place[i] for i in shape.by_parts],
    )


def _op(shape: TableShape, i: int) -> ColumnOp:
    column = shape.columns[i]
    if i in shape.masked_dates:
        return "call", 1, 0, 0, shape.masked_moment(i, moment_reader(column)), None, None
    return (*_told(column), None, shape.masked.get(i))


def _told(column: Column) -> tuple[str, int, int, int, object]:
    kind = column.type
    if kind in _INTS or (kind == "bigint" and not column.unsigned):
        return "text_int", 1, 0, 0, None
    if kind == "bigint":
        return "text_unsigned_64", 1, 0, 0, None
    if kind in _MOMENTS:
        return _MOMENTS[kind], 1, column.digits, 0, column.name.encode()
    if kind in _NUMBERS:
        return _NUMBERS[kind], 1, 0, 0, None
    if kind == "bit":
        return "text_bit", 1, column.length, 0, None
    if kind == "decimal" and (column.precision or 10) <= _MOST_DIGITS:
        return "text_decimal", 1, column.precision or 10, column.scale or 0, None
    if kind == "vector":
        return "vector", 1, 0, 0, None
    charset = text_charset(column)
    if charset is not None:
        code, data = text_op(charset)
        return code, 1, 0, 0, data
    avro = column.avro()
    if (avro if isinstance(avro, str) else avro["type"]) == "bytes" and kind != "decimal":
        return "text", 1, 0, 0, None
    return "call", 1, 0, 0, value_writer(column)
