"""The text of a row in Spark's SQL, over a lake table's columns. The session is in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.record.schema import avro_name
from include.source.hashes.columns import Compared
from include.source.policy.masks import Hash

__all__ = ["row_hash", "row_text", "value_text"]

_LAKE_DIGITS: Final = 38


def row_hash(columns: Iterable[Compared], invalid: str = "") -> str:
    """MD5 of a row's text, 32 hex digits; `invalid` is the column of dates that no calendar has, '' without one."""
    return f"md5({row_text(columns, invalid)})"


def row_text(columns: Iterable[Compared], invalid: str = "") -> str:
    """A row's text."""
    return f"concat({', '.join(_netstring(value_text(each, invalid)) for each in columns)})"


def value_text(compared: Compared, invalid: str = "") -> str:
    """A value's text; NULL of null."""
    column, name = compared.column, f"`{avro_name(compared.column.name)}`"
    if isinstance(compared.mask, Hash):
        return name
    match compared.kind:
        case "number":
            wide = column.type == "decimal" and (column.precision or 10) > _LAKE_DIGITS
            return name if wide else f"cast({name} as string)"
        case "double":
            return _double(f"cast({name} as double)")
        case "date":
            return _dated(f"unix_date({name})", column.name, invalid)
        case "datetime":
            return _dated(f"unix_micros(cast({name} as timestamp))", column.name, invalid)
        case "timestamp":
            return _dated(f"unix_micros({name})", column.name, invalid)
        case "time":
            return f"cast({name} as string)"
        case "text":
            return name
        case "long_text" | "bytes":
            return f"md5({name})"


def _netstring(text: str) -> str:
    return f"coalesce(concat(octet_length({text}), ':', {text}), 'N')"


def _dated(number: str, name: str, invalid: str) -> str:
    said = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"coalesce(cast({number} as string), element_at(`{invalid}`, '{said}'))"


def _double(x: str) -> str:
    """As `server_sql` has it."""
    e = f"cast(floor(log2(abs({x}))) as int)"
    m = f"(abs({x}) / pow(2D, {e} div 2) / pow(2D, {e} - {e} div 2))"
    mantissa = f"cast({m} * if({m} >= 2D, 0.5D, if({m} < 1D, 2D, 1D)) * 4503599627370496D as bigint)"
    exponent = f"({e} + cast({m} >= 2D as int) - cast({m} < 1D as int))"
    return f"if({x} = 0D, '0', concat(if({x} < 0D, '-', ''), {mantissa}, 'p', {exponent}))"
