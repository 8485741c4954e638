"""The text of a row in Python, from the row as it stands in a topic: what the other two are held against."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any, Final

from include.record.schema import Column, avro_name
from include.source.hashes.columns import Compared, Kind
from include.source.policy.masks import Hash

__all__ = ["row_hash", "row_text", "value_text"]


def row_hash(columns: Iterable[Compared], row: Mapping[str, Any], invalid: str = "") -> str:
    """MD5 of a row's text, 32 hex digits."""
    return _md5(row_text(columns, row, invalid))


def row_text(columns: Iterable[Compared], row: Mapping[str, Any], invalid: str = "") -> bytes:
    """A row's text.

    Args:
        columns: in the order that they have at the server.
        row: values by Avro's names, as fastavro reads them without logical types.
        invalid: the field of dates that no calendar has; '' where no column can hold one.
    """
    texts = (row.get(invalid) if invalid else None) or {}
    parts = []
    for each in columns:
        text = value_text(each, row[avro_name(each.column.name)])
        if text is None:
            text = texts.get(each.column.name)
        parts.append(b"N" if text is None else b"%d:%b" % (len(data := text.encode()), data))
    return b"".join(parts)


def value_text(compared: Compared, value: Any) -> str | None:
    """A value's text; None of null."""
    if value is None:
        return None
    if isinstance(compared.mask, Hash):
        return str(value)
    return _TEXTS[compared.kind](compared.column, value)


def _number(column: Column, value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    return f"{Decimal(int.from_bytes(value, 'big', signed=True)).scaleb(-(column.scale or 0), _EXACT):f}"


def _double(_: Column, value: float) -> str:
    if not value:
        return "0"
    mantissa, exponent = math.frexp(value)
    return f"{int(mantissa * (1 << 53))}p{exponent - 1}"


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


_EXACT: Final = Context(prec=76)
_TEXTS: Final[dict[Kind, Callable[[Column, Any], str]]] = {
    "number": _number,
    "double": _double,
    **dict.fromkeys(("date", "datetime", "timestamp", "time", "text"), lambda _, value: str(value)),
    "long_text": lambda _, value: _md5(value.encode()),
    "bytes": lambda _, value: _md5(value),
}
