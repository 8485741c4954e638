"""Reads Parquet files back, row by row."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from include.errors import Terminal
from include.lake.message import Message

__all__ = ["plain", "read_rows"]


def read_rows(stream: BinaryIO, coordinates: tuple[str, str, str]) -> Iterator[Message]:
    """The rows of a file; `coordinates` names the columns of offset, timestamp and key, of which some may be missing.

    A value is JSON: times as the numbers that the file has, decimals as text, bytes as `{"base64": …}`, maps as pairs.
    Raises `Terminal` naming the row.
    """
    import pyarrow.lib as pa
    from pyarrow.parquet import ParquetFile

    row = 0
    try:
        reader: Any = ParquetFile
        with reader(stream) as file:
            for batch in file.iter_batches(batch_size=1000):
                table = pa.Table.from_batches([batch])
                for each in table.cast(pa.schema([_counted(field) for field in table.schema])).to_pylist():
                    offset, at, key = (each.pop(name, None) for name in coordinates)
                    text = orjson.dumps(each, default=plain)
                    yield Message(-1 if offset is None else offset, key, text, (), -1 if at is None else at)
                    row += 1
    except (pa.ArrowException, OSError) as error:
        raise Terminal(
            "Parquet file is damaged",
            row=row,
            cause=str(error),
            fix="Compare its sha256 with its commit: `lyrebird audit chain --deep`.",
        ) from error


def _counted(field: Any) -> Any:
    """The field with numbers for times: no calendar has all of them."""
    return field.with_type(_number(field.type))


def _number(type_: Any) -> Any:
    import pyarrow.lib as pa
    import pyarrow.types as types

    if types.is_temporal(type_):
        return pa.int64() if type_.bit_width == 64 else pa.int32()
    if types.is_struct(type_):
        return pa.struct([_counted(inner) for inner in type_])
    if types.is_map(type_):
        return pa.map_(type_.key_field, _counted(type_.item_field))
    return pa.list_(_counted(type_.value_field)) if types.is_list(type_) else type_


def plain(value: Any) -> Any:
    """What has no form in JSON: bytes as `{"base64": …}`, all else as text."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else str(value)
