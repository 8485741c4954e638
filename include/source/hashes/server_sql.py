"""The text of a row in the SQL of MariaDB and MySQL. The session is in UTC and utf8mb4.

A row's text is that of its columns one behind the other, each as a netstring (https://cr.yp.to/proto/netstrings.txt
without the comma), `N` for null: so no two rows have the same. Both servers compute impossible dates (2026-02-31 is the
third of March to them) and know no number of zero dates: whether a date is one says the way there and back. MySQL has
a year 0, MariaDB and Avro's readers have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from include.record.schema import GEOMETRIES
from include.source.hashes.columns import Compared, ComparedRows, Digest
from include.source.hashes.sums import LEAF_BITS
from include.source.policy.masks import Hash, KeepLast
from include.source.snapshot.key_range import quoted

__all__ = ["key_text", "leaf_rows", "leaf_sums", "row_hash", "row_text", "value_text"]


def leaf_sums(table: str, rows: ComparedRows, bits: int, where: str = "") -> str:
    """SELECT (leaf, rows, rows with a hash, sum of the hashes' first halves, of the last ones).

    Fewer hashes than rows: the text of some was longer than `max_allowed_packet`.

    Args:
        table: as it stands in SQL.
        rows: of it.
        bits: of a leaf's number.
        where: a condition, '' for all rows.
    """
    halves = (f"SUM(CAST(CONV({side}(h, 16), 16, 10) AS UNSIGNED))" for side in ("LEFT", "RIGHT"))
    # Rows without a key of their own are one in the topic where they are alike.
    once = "DISTINCT " if rows.keyless else ""
    hashed = f"SELECT {once}{_leaf(rows, bits)} AS leaf, {row_hash(rows)} AS h FROM {table}{_where(where)}"  # noqa: S608
    return f"SELECT leaf, COUNT(*), COUNT(h), {', '.join(halves)} FROM ({hashed}) hashed GROUP BY leaf"  # noqa: S608 - quoted


def leaf_rows(table: str, rows: ComparedRows, bits: int, leaves: Iterable[int], where: str = "") -> str:
    """SELECT (text of the key, text of the row) of the rows of these leaves; arguments as `leaf_sums`.

    NULL for a text that was longer than the server may make one.
    """
    once = "DISTINCT " if rows.keyless else ""
    found = f"SELECT {_leaf(rows, bits)} AS leaf, {key_text(rows)} AS k, {row_text(rows)} AS r FROM {table}"  # noqa: S608 - quoted
    return f"SELECT {once}k, r FROM ({found}{_where(where)}) found WHERE leaf IN ({', '.join(map(str, leaves))})"  # noqa: S608 - quoted


def row_hash(rows: ComparedRows) -> str:
    """The hash of a row's text, 32 hex digits; NULL where the text was longer than the server may make one."""
    return _DIGESTS[rows.digest](row_text(rows))


def row_text(rows: ComparedRows) -> str:
    """A row's text."""
    return _texts(rows.columns, rows.digest)


def key_text(rows: ComparedRows) -> str:
    """The text of a row's key."""
    return _texts(rows.key, rows.digest)


def value_text(compared: Compared, digest: Digest) -> str:
    """A value's text; NULL of null."""
    hashed = _DIGESTS[digest]
    column, name = compared.column, quoted(compared.column.name)
    if compared.mask is not None:
        return _masked(compared, digest)
    match compared.kind:
        case "number":
            # A ZEROFILL column prints zeros that are no part of the number.
            return f"CAST({name} + 0 AS CHAR)"
        case "double":
            return _double(f"({name} * 1e0)")
        case "date":
            return _of_calendar(name, f"TO_DAYS({name}) - 719528")
        case "datetime":
            return _of_calendar(name, f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {name})")
        case "timestamp":
            micros = f"CAST(UNIX_TIMESTAMP({name}) * 1000000 AS SIGNED)"
            return f"IF({micros} = 0, CAST({name} AS CHAR), CAST({micros} AS CHAR))"
        case "time":
            # MySQL leaves fractions out of the seconds, MariaDB has them in.
            seconds = f"TRUNCATE(ABS(TIME_TO_SEC({name})), 0)"
            sign = f"IF(LEFT({name}, 1) = '-', -1, 1)"
            return f"CAST(CAST({sign} * ({seconds} * 1000000 + MICROSECOND({name})) AS SIGNED) AS CHAR)"
        case "text":
            return _utf8(compared)
        case "long_text":
            return hashed(_utf8(compared))
        case "hex":
            return f"HEX({name})"
        case "bytes":
            return hashed(f"CAST({name} AS BINARY)" if column.type in GEOMETRIES else name)


def _masked(compared: Compared, digest: Digest) -> str:
    """Of what leaves in the place of a value."""
    if isinstance(compared.mask, Hash):
        printed = quoted(compared.column.name) if compared.kind == "bytes" else _utf8(compared)
        return f"SHA2(CONCAT(CAST({_literal(compared.mask.salt)} AS BINARY), CAST({printed} AS BINARY)), 256)"
    assert isinstance(compared.mask, KeepLast)  # noqa: S101 - there is no other
    count, text = compared.mask.count, _utf8(compared)
    kept = f"CONCAT(REPEAT('*', GREATEST(0, CHAR_LENGTH({text}) - {count})), RIGHT({text}, {count}))"
    return _DIGESTS[digest](kept) if compared.kind == "long_text" else kept


_DIGESTS: Final[dict[Digest, Callable[[str], str]]] = {
    "md5": lambda text: f"MD5({text})",
    "sha256": lambda text: f"LEFT(SHA2({text}, 256), 32)",
}


def _texts(columns: Iterable[Compared], digest: Digest) -> str:
    return f"CONCAT({', '.join(_netstring(each, value_text(each, digest)) for each in columns)})"


def _leaf(rows: ComparedRows, bits: int) -> str:
    hashed = _DIGESTS[rows.digest](key_text(rows))
    return f"(CAST(CONV(LEFT({hashed}, {LEAF_BITS // 4}), 16, 10) AS UNSIGNED) >> {LEAF_BITS - bits})"


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _netstring(compared: Compared, text: str) -> str:
    # The column is asked and not its text: what is too long for the server is NULL, and would pass for null.
    return f"IF({quoted(compared.column.name)} IS NULL, 'N', CONCAT(LENGTH({text}), ':', {text}))"


def _utf8(compared: Compared) -> str:
    name = quoted(compared.column.name)
    text = f"CONVERT({name} USING utf8mb4)"
    if not compared.charset:
        return text
    back = f"CAST(CONVERT({text} USING {compared.charset}) AS BINARY)"
    return f"IF({back} = CAST({name} AS BINARY), {text}, CONCAT('?', HEX({name})))"


def _of_calendar(name: str, number: str) -> str:
    return (
        f"IF({name} IS NULL, NULL, IF(IFNULL(FROM_DAYS(TO_DAYS({name})) = DATE({name}) AND YEAR({name}) > 0, 0),"
        f" CAST({number} AS CHAR), CAST({name} AS CHAR)))"
    )


def _double(x: str) -> str:
    # The logarithm may be off by one beside a power of two. Dividing by powers of two is exact, in two steps also where
    # one power would be too large.
    e = f"CAST(FLOOR(LOG2(ABS({x}))) AS SIGNED)"
    m = f"(ABS({x}) / POW(2, {e} DIV 2) / POW(2, {e} - {e} DIV 2))"
    mantissa = f"CAST({m} * IF({m} >= 2, 0.5e0, IF({m} < 1, 2e0, 1e0)) * 4503599627370496e0 AS UNSIGNED)"
    return f"IF({x} = 0, '0', CONCAT(IF({x} < 0, '-', ''), {mantissa}, 'p', {e} + ({m} >= 2) - ({m} < 1)))"


def _literal(text: str) -> str:
    return f"x'{text.encode().hex()}'" if text else "''"
