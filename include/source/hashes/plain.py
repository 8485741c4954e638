"""The text of a row in Python, from the row as it stands in a topic: what the other two are held against."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any, Final

from include.policy.masks import HashMask
from include.record.schema import Column, avro_name
from include.source.hashes.columns import ComparedColumn, ComparedRows, Digest, HashKind
from include.source.hashes.printed import printed_date, printed_moment

__all__ = ["key_text", "row_hash", "row_text", "value_text"]


def row_hash(rows: ComparedRows, row: Mapping[str, Any]) -> str:
    """The hash of a row's text, 32 hex digits."""
    return _DIGESTS[rows.digest](row_text(rows, row))


def row_text(rows: ComparedRows, row: Mapping[str, Any]) -> bytes:
    """A row's text; `row` has values by Avro's names, as fastavro reads them without logical types."""
    return _texts(rows.columns, rows, row)


def key_text(rows: ComparedRows, row: Mapping[str, Any]) -> bytes:
    """The text of a row's key."""
    return _texts(rows.key, rows, row)


def value_text(compared: ComparedColumn, rows: ComparedRows, row: Mapping[str, Any]) -> str | None:
    """A value's text; None of null."""
    name = compared.column.name
    value = row[avro_name(name)]
    if value is None:
        texts = row.get(rows.invalid) if rows.invalid else None
        return None if texts is None else texts.get(name)
    if isinstance(compared.mask, HashMask):
        return str(value)
    if compared.kind == "hex":
        return str(value.hex().upper())
    if compared.kind in ("long_text", "bytes"):
        return _DIGESTS[rows.digest](value if isinstance(value, bytes) else value.encode())
    return _TEXTS.get(compared.kind, _plain)(compared.column, value)


def _texts(columns: Iterable[ComparedColumn], rows: ComparedRows, row: Mapping[str, Any]) -> bytes:
    return b";".join(_written(each, value_text(each, rows, row)) for each in columns)


def _written(compared: ComparedColumn, text: str | None) -> bytes:
    data = b"N" if text is None else text.encode()
    return b"%d;%b" % (len(data), data) if compared.sized and text is not None else data


def _plain(_: Column, value: Any) -> str:
    return str(value)


def _number(column: Column, value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    return f"{Decimal(int.from_bytes(value, 'big', signed=True)).scaleb(-(column.scale or 0), _EXACT):f}"


def _double(_: Column, value: float) -> str:
    if not value:
        return "0"
    mantissa, exponent = math.frexp(value)
    return f"{int(mantissa * (1 << 53))}p{exponent - 1}"


_EXACT: Final = Context(prec=76)
_TEXTS: Final[dict[HashKind, Callable[[Column, Any], str]]] = {
    "number": _number,
    "double": _double,
    "date": lambda _, days: printed_date(days),
    "datetime": lambda column, micros: printed_moment(micros, column.digits),
    "timestamp": lambda column, micros: printed_moment(micros, column.digits),
}
_DIGESTS: Final[dict[Digest, Callable[[bytes], str]]] = {
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
    "sha256": lambda data: hashlib.sha256(data).hexdigest()[:32],
}
