"""The text of a row in Spark's SQL, over a lake table's columns. The session is in UTC."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from include.record.schema import avro_name
from include.source.hashes.columns import Compared, ComparedRows, Digest
from include.source.hashes.sums import LEAF_BITS
from include.source.policy.masks import Hash

__all__ = ["key_text", "leaf_rows", "leaf_sums", "row_hash", "row_text", "value_text"]

_LAKE_DIGITS: Final = 38


def leaf_sums(table: str, rows: ComparedRows, bits: int, part: str = "0") -> str:
    """SELECT (part, leaf, rows, sum of the hashes' first halves, of the last ones).

    Args:
        table: as it stands in SQL.
        rows: of it.
        bits: of a leaf's number.
        part: expression of the number of the range that a row lies in.
    """
    # As decimals, since a sum of 64 bits would run over without a word.
    halves = (f"sum(cast(conv({side}(h, 16), 16, 10) as decimal(20, 0)))" for side in ("left", "right"))
    hashed = f"select {part} as part, {_leaf(rows, bits)} as leaf, {row_hash(rows)} as h from {table}"  # noqa: S608 - quoted
    return f"select part, leaf, count(*), {', '.join(halves)} from ({hashed}) group by part, leaf"  # noqa: S608 - quoted


def leaf_rows(table: str, rows: ComparedRows, bits: int, leaves: Mapping[int, Collection[int]], part: str = "0") -> str:
    """SELECT (part, text of the key, text of the row) of the rows of these leaves by part; arguments as `leaf_sums`."""
    found = f"select {part} as part, {_leaf(rows, bits)} as leaf, {key_text(rows)} as k, {row_text(rows)} as r"
    wanted = " or ".join(f"part = {n} and leaf in ({', '.join(map(str, some))})" for n, some in leaves.items() if some)
    return f"select part, k, r from ({found} from {table}) where {wanted or 'false'}"  # noqa: S608 - quoted


def row_hash(rows: ComparedRows) -> str:
    """The hash of a row's text, 32 hex digits."""
    return _DIGESTS[rows.digest](row_text(rows))


def row_text(rows: ComparedRows) -> str:
    """A row's text."""
    return _texts(rows.columns, rows)


def key_text(rows: ComparedRows) -> str:
    """The text of a row's key."""
    return _texts(rows.key, rows)


def value_text(compared: Compared, rows: ComparedRows) -> str:
    """A value's text; NULL of null."""
    invalid = rows.invalid
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
        case "hex":
            return f"hex({name})"
        case "long_text" | "bytes":
            return _DIGESTS[rows.digest](name)


_DIGESTS: Final[dict[Digest, Callable[[str], str]]] = {
    "md5": lambda text: f"md5({text})",
    "sha256": lambda text: f"left(sha2({text}, 256), 32)",
}


def _texts(columns: Iterable[Compared], rows: ComparedRows) -> str:
    return f"concat({', '.join(_netstring(value_text(each, rows)) for each in columns)})"


def _leaf(rows: ComparedRows, bits: int) -> str:
    hashed = _DIGESTS[rows.digest](key_text(rows))
    return f"shiftright(cast(conv(left({hashed}, {LEAF_BITS // 4}), 16, 10) as bigint), {LEAF_BITS - bits})"


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
