"""Rows' Avro bytes as Arrow's columns, without a Python value between: what `Column.values` makes of decoded rows.

It is for columns of Delta tables, and where the compiled reader is there. It never judges: whatever it cannot make, or
finds wrong, it leaves to those who decode row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from include.errors import InvalidRecord
from include.lake.formats.arrow_columns import ArrowColumn
from include.lake.formats.avro_schemas import plain_schema
from include.record.codec import DatumReader
from include.record.fields import Fields
from include.record.native import columnar_of

__all__ = ["ArrowRows"]

_DIGITS: Final = 38
ColumnBuffers = tuple[bytes | None, int, bytes | None, bytes]


class ArrowRows:
    """Rows of one schema. Not for several threads at once."""

    def __init__(self, schema: Mapping[str, Any], columns: Sequence[ArrowColumn]) -> None:
        """`columns`: of that schema, for Delta tables (`columns_of`)."""
        fields = Fields(schema)
        self._columns = columns
        self._native = columnar_of(fields.schema)
        kinds = self._native.codes if self._native is not None else [None] * len(columns)
        self._makers: list[Callable[[Any, int], Any] | None] = [
            _Decoded.of(fields.schema, place, column) if kind is None else _maker(column.type, *kind)
            for place, (column, kind) in enumerate(zip(columns, kinds, strict=True))
        ]

    def arrays(self, rows: list[bytes]) -> list[Any] | None:
        """An array for each column; None where each row is to be decoded by itself."""
        import pyarrow.lib as pa

        if self._native is None or None in self._makers:
            return None
        told = self._native.columns_of(rows)
        if told is None:
            return None
        try:
            return [make(each, len(rows)) for make, each in zip(self._makers, told, strict=True) if make is not None]
        except (InvalidRecord, pa.ArrowException, ValueError, OverflowError):
            return None


class _Decoded:
    """Of fields that have a structure: few of a row, and mostly null."""

    def __init__(self, read: DatumReader, column: ArrowColumn) -> None:
        """`read`: a record with this field alone."""
        self._read, self._column = read, column

    @classmethod
    def of(cls, schema: Mapping[str, Any], place: int, column: ArrowColumn) -> Self | None:
        """Of a field; None where its type is named in another one."""
        alone = {name: value for name, value in schema.items() if not name.startswith("__")}
        try:
            read = DatumReader(plain_schema({**alone, "fields": [schema["fields"][place]]}))
        except InvalidRecord:
            return None
        return cls(read, column)

    def __call__(self, data: list[bytes], _: int) -> Any:
        import pyarrow.lib as pa

        known: dict[bytes, Any] = {}
        for each in data:
            if each not in known:
                known[each] = self._read(each)[self._column.name]
        return pa.array(self._column.values([known[each] for each in data]), self._column.type)


def _maker(wanted: Any, code: str, factor: int, labels: tuple[str, ...]) -> Callable[[Any, int], Any] | None:
    """Makes an array of what the compiled reader gives of such values; None where that is not known here."""
    import pyarrow.compute
    import pyarrow.lib as pa
    import pyarrow.types as types

    pc: Any = pyarrow.compute
    plain = {"float": pa.float32(), "double": pa.float64(), "string": pa.string(), "uuid": pa.string()}
    plain |= {"bytes": pa.binary(), "long": pa.int64()}
    if code in plain:
        return (lambda told, n: _array(wanted, told, n)) if plain[code] == wanted else None
    if code == "decimal":
        if not types.is_decimal128(wanted):
            return None
        # Arrow looks whether the digits fit only where they become fewer.
        way = [pa.decimal256(_DIGITS + 1, wanted.scale)] if wanted.precision == _DIGITS else []
        whole = pa.decimal128(_DIGITS, wanted.scale)
        return lambda told, n: _cast(_array(whole, told, n), [*way, wanted])
    numbers: dict[str, Callable[[Any], Any]] = {
        "boolean": lambda values: values.cast(pa.bool_()),
        "int": lambda values: values.cast(pa.int32()),
        "date": lambda values: values.cast(pa.int32()).cast(pa.date32()),
        "enum": lambda values: pa.array(labels, pa.string()).take(values),
        "time": lambda values: pc.multiply_checked(values, factor),
        "timestamp": lambda values: pc.multiply_checked(values, factor).cast(wanted),
    }
    make = numbers.get(code)
    if make is None or make(pa.array([], pa.int64())).type != wanted:
        return None
    return lambda told, n: make(_array(pa.int64(), told, n))


def _array(kind: Any, buffered: ColumnBuffers, count: int) -> Any:
    import pyarrow.lib as pa

    valid, nulls, offsets, data = buffered
    buffers = [None if each is None else pa.py_buffer(each) for each in (valid, offsets, data)]
    return pa.Array.from_buffers(kind, count, buffers if offsets is not None else [buffers[0], buffers[2]], nulls)


def _cast(values: Any, kinds: Sequence[Any]) -> Any:
    for kind in kinds:
        values = values.cast(kind)
    return values
