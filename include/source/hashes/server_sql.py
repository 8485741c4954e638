"""The text of a row (`columns`) in the SQL of MariaDB and MySQL. The session is in UTC and utf8mb4.

Speed rests on each expression standing there once: a server computes what is named twice two times. So one 64-bit sum
is made of a hash, and dates are compared as they are shown: their numbers would need a guard against impossible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from include.policy.masks import HashMask, KeepLastMask, NullMask
from include.record.schema import GEOMETRIES
from include.source.hashes.columns import ComparedColumn, ComparedRows, Digest
from include.source.hashes.sums import LEAF_BITS
from include.source.snapshot.key_order import quoted

__all__ = ["UNHASHED", "key_text", "leaf_rows", "leaf_sums", "row_hash", "row_text", "value_text"]


UNHASHED: Final = 10**30
"""Stands in a sum for each row whose text was longer than `max_allowed_packet`; more than all hashes come to."""


def leaf_sums(table: str, rows: ComparedRows, bits: int, where: str = "") -> str:
    """SELECT (leaf, rows, sum of their hashes' first 64 bits, and of `UNHASHED`).

    Args:
        table: as it stands in SQL.
        rows: of it.
        bits: of a leaf's number.
        where: a condition, '' for all rows.
    """
    number = f"IFNULL(CAST(CONV(LEFT({row_hash(rows)}, 16), 16, 10) AS UNSIGNED), {UNHASHED})"
    if not rows.keyless:
        # By its place: a name would be that of a column of the table's own, where it has one.
        return f"SELECT {_leaf(rows, bits)} AS leaf, COUNT(*), SUM({number}) FROM {table}{_where(where)} GROUP BY 1"  # noqa: S608
    # Rows without a key of their own are one in the topic where they are alike.
    once = f"SELECT DISTINCT {_leaf(rows, bits)} AS leaf, {number} AS number FROM {table}{_where(where)}"  # noqa: S608
    return f"SELECT leaf, COUNT(*), SUM(number) FROM ({once}) hashed GROUP BY 1"  # noqa: S608 - quoted


def leaf_rows(table: str, rows: ComparedRows, bits: int, leaves: Iterable[int], where: str = "") -> str:
    """SELECT (text of the key, text of the row) of the rows of these leaves; arguments as `leaf_sums`.

    NULL for a text that was longer than the server may make one. Rows that are alike come each: DISTINCT would take
    texts for one that a collation holds equal.
    """
    found = f"SELECT {_leaf(rows, bits)} AS leaf, {key_text(rows)} AS k, {row_text(rows)} AS r FROM {table}"  # noqa: S608 - quoted
    wanted = ", ".join(map(str, leaves)) or "NULL"
    return f"SELECT k, r FROM ({found}{_where(where)}) found WHERE leaf IN ({wanted})"  # noqa: S608 - quoted


def row_hash(rows: ComparedRows) -> str:
    """The hash of a row's text, 32 hex digits; NULL where the text was longer than the server may make one."""
    return _DIGESTS[rows.digest](row_text(rows))


def row_text(rows: ComparedRows) -> str:
    """A row's text."""
    return _texts(rows.columns, rows.digest)


def key_text(rows: ComparedRows) -> str:
    """The text of a row's key."""
    return _texts(rows.key, rows.digest)


def value_text(compared: ComparedColumn, digest: Digest) -> str:
    """A value's text; NULL of null."""
    hashed = _DIGESTS[digest]
    column, name = compared.column, quoted(compared.column.name)
    if compared.mask is not None:
        return _masked(compared, digest)
    match compared.kind:
        case "number":
            # A ZEROFILL column prints zeros that are no part of the number.
            return f"({name} + 0)"
        case "double":
            return _double(f"({name} * 1e0)")
        case "date" | "datetime" | "timestamp":
            return name
        case "time":
            # MySQL leaves fractions out of the seconds, MariaDB has them in.
            seconds = f"TRUNCATE(ABS(TIME_TO_SEC({name})), 0)"
            sign = f"IF(LEFT({name}, 1) = '-', -1, 1)"
            return f"CAST({sign} * ({seconds} * 1000000 + MICROSECOND({name})) AS SIGNED)"
        case "text":
            return _utf8(compared)
        case "long_text":
            return hashed(_utf8(compared))
        case "hex":
            return f"HEX({name})"
        case "bytes":
            return hashed(f"CAST({name} AS BINARY)" if column.type in GEOMETRIES else name)


def _masked(compared: ComparedColumn, digest: Digest) -> str:
    """Of what leaves in the place of a value."""
    if isinstance(compared.mask, NullMask):
        return "NULL"
    if isinstance(compared.mask, HashMask):
        name = quoted(compared.column.name)
        # As in `value_text`: without the zeros of ZEROFILL.
        number = f"CONVERT(({name} + 0) USING utf8mb4)"
        printed = name if compared.kind == "bytes" else number if compared.kind == "number" else _utf8(compared)
        return f"SHA2(CONCAT(CAST({_literal(compared.mask.salt)} AS BINARY), CAST({printed} AS BINARY)), 256)"
    assert isinstance(compared.mask, KeepLastMask)  # noqa: S101 - there is no other
    count, text = compared.mask.count, _utf8(compared)
    kept = f"CONCAT(REPEAT('*', GREATEST(0, CHAR_LENGTH({text}) - {count})), RIGHT({text}, {count}))"
    return _DIGESTS[digest](kept) if compared.kind == "long_text" else kept


_DIGESTS: Final[dict[Digest, Callable[[str], str]]] = {
    "md5": lambda text: f"MD5({text})",
    "sha256": lambda text: f"LEFT(SHA2({text}, 256), 32)",
}


def _texts(columns: Iterable[ComparedColumn], digest: Digest) -> str:
    parts = []
    for each in columns:
        text = value_text(each, digest)
        # CONCAT_WS leaves NULL out: its length tells that a text is.
        parts += [f"IFNULL(LENGTH({text}), 'N')", text] if each.sized else [f"IFNULL({text}, 'N')"]
    return f"CONCAT_WS(';', {', '.join(parts)})"


def _leaf(rows: ComparedRows, bits: int) -> str:
    return f"(CRC32({key_text(rows)}) >> {LEAF_BITS - bits})"


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _utf8(compared: ComparedColumn) -> str:
    name = quoted(compared.column.name)
    if compared.column.charset in ("utf8mb4", "utf8mb3", "utf8"):
        return name
    text = f"CONVERT({name} USING utf8mb4)"
    if not compared.charset:
        return text
    back = f"CAST(CONVERT({text} USING {compared.charset}) AS BINARY)"
    return f"IF({back} = CAST({name} AS BINARY), {text}, CONCAT('?', HEX({name})))"


def _double(x: str) -> str:
    # The logarithm may be off by one beside a power of two. Dividing by powers of two is exact, in two steps also where
    # one power would be too large.
    e = f"CAST(FLOOR(LOG2(ABS({x}))) AS SIGNED)"
    m = f"(ABS({x}) / POW(2, {e} DIV 2) / POW(2, {e} - {e} DIV 2))"
    mantissa = f"CAST({m} * IF({m} >= 2, 0.5e0, IF({m} < 1, 2e0, 1e0)) * 4503599627370496e0 AS UNSIGNED)"
    return f"IF({x} = 0, '0', CONCAT(IF({x} < 0, '-', ''), {mantissa}, 'p', {e} + ({m} >= 2) - ({m} < 1)))"


def _literal(text: str) -> str:
    return f"x'{text.encode().hex()}'" if text else "''"
