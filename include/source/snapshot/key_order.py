"""The order of a table's key: the SQL of its ranges, and which of them are left to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from include.errors import Terminal
from include.record.schema import Column
from include.source.state.key_range import WHOLE, Bound, KeyRange

__all__ = ["KeyOrder", "Ledger", "quoted"]

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_HEX: Final = re.compile(r"([0-9A-F]{2})*")
_PLAIN: Final = re.compile(r"[0-9A-Fa-f:. -]*")
_NUMBERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
# Their own text does not sort as they do.
_BY_VALUE: Final = frozenset({"year", "bit", "enum", "set"})
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_QUOTED: Final = frozenset({"date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6"})
_SORTED: Final = _NUMBERS | _BY_VALUE | _TEXTS | _BYTES | _QUOTED


class KeyOrder:
    """The SQL of a table's ranges. `divides`: whether its key can bound them; else only the whole is a range.

    FLOAT and DOUBLE do not bound: their texts are rounded. Nor does a key over the beginning of a column, as no index
    has the order of whole ones.
    """

    def __init__(self, columns: Iterable[Column], key: Sequence[str], *, prefixed: bool = False) -> None:
        """`key`: names of the columns of a primary key, or of a unique one that is never null; () without either."""
        known = {column.name: column for column in columns}
        self._key = [known[name] for name in key]
        self.divides = bool(self._key) and not prefixed and all(column.type in _SORTED for column in self._key)

    @property
    def order(self) -> str:
        """The columns to order by; empty where that would only sort what nobody divides."""
        return ", ".join(quoted(column.name) for column in self._key) if self.divides else ""

    @property
    def bound(self) -> str:
        """The expressions that make a `Bound` of a row."""
        return ", ".join(_expression(column) for column in self._key)

    def condition(self, rows: KeyRange) -> str:
        """The rows of a range; empty where it is the whole. Raises `Terminal` for a bound that is none of this key."""
        if not self.divides and rows != WHOLE:
            raise self._strange(rows.after or rows.upto or ())
        parts = []
        if rows.after is not None:
            parts.append(self._beyond(rows.after, ">", ">"))
        if rows.upto is not None:
            parts.append(self._beyond(rows.upto, "<", "<="))
        return " AND ".join(parts)

    def _beyond(self, bound: Bound, sign: str, last_sign: str) -> str:
        """(a, b) > (x, y) spelled out, as servers do not look up row values in an index."""
        if len(bound) != len(self._key):
            raise self._strange(bound)
        names = [quoted(column.name) for column in self._key]
        values = [self._literal(column, text, bound) for column, text in zip(self._key, bound, strict=True)]
        cases = []
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            equal = [f"{names[j]} = {values[j]}" for j in range(i)]
            last = last_sign if i == len(names) - 1 else sign
            cases.append(" AND ".join([*equal, f"{name} {last} {value}"]))
        return cases[0] if len(cases) == 1 else "(" + " OR ".join(f"({case})" for case in cases) + ")"

    def _literal(self, column: Column, text: str, bound: Bound) -> str:
        kind = column.type
        if kind in _NUMBERS or kind in _BY_VALUE:
            fits, literal = _NUMBER.fullmatch(text), text
        elif kind in _QUOTED:
            fits, literal = _PLAIN.fullmatch(text), f"'{text}'"
        else:
            # As the bytes that the server keeps: a text of its charset, compared by its column's collation.
            fits = _HEX.fullmatch(text)
            literal = f"x'{text}'" if kind in _BYTES else f"_{_charset(column)} x'{text}'"
        if not fits:
            raise self._strange(bound)
        return literal

    def _strange(self, bound: Bound) -> Terminal:
        return Terminal(
            "a snapshot's place is none of the table's key",
            key=[column.name for column in self._key],
            place=list(bound),
            fix="Was the key altered meanwhile? Ask for the snapshot anew: `lyrebird capture snapshot`.",
        )


class Ledger:
    """The ranges of one table that are not read yet; some of them are being read. For one thread at a time."""

    def __init__(self, left: Iterable[KeyRange] = (WHOLE,)) -> None:
        self._left = list(left)
        self._taken: set[KeyRange] = set()

    @property
    def left(self) -> tuple[KeyRange, ...]:
        """All that is not finished, neighbours as one."""
        ranges: list[KeyRange] = []
        for each in self._left:
            if ranges and ranges[-1].upto is not None and ranges[-1].upto == each.after:
                ranges[-1] = KeyRange(ranges[-1].after, each.upto)
            else:
                ranges.append(each)
        return tuple(ranges)

    @property
    def free(self) -> KeyRange | None:
        """The first that nobody has taken."""
        # A copy, as whoever only looks holds no lock.
        return next((each for each in list(self._left) if each not in self._taken), None)

    def take(self, boundary: Callable[[KeyRange], Bound | None]) -> KeyRange | None:
        """A range to read, None when all are taken or finished.

        `boundary` tells the key at which a range ought to be cut, None: it is small enough.
        """
        for index, key_range in enumerate(self._left):
            if key_range in self._taken:
                continue
            at = boundary(key_range)
            taken = key_range
            if at is not None and at != key_range.upto:
                taken = KeyRange(key_range.after, at)
                self._left[index : index + 1] = [taken, KeyRange(at, key_range.upto)]
            self._taken.add(taken)
            return taken
        return None

    def put_back(self, rows: KeyRange) -> None:
        """It was not read: somebody else takes it."""
        self._taken.discard(rows)

    def finish(self, rows: KeyRange) -> None:
        """It was read."""
        self._taken.discard(rows)
        self._left.remove(rows)


def quoted(name: str) -> str:
    """A name as an identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _expression(column: Column) -> str:
    name = quoted(column.name)
    if column.type in _BYTES:
        return f"HEX({name})"
    if column.type in _TEXTS:
        return f"HEX(CAST({name} AS BINARY))"
    return f"{name} + 0" if column.type in _BY_VALUE else name


def _charset(column: Column) -> str:
    # The older of its two names is known to every server.
    return "utf8" if column.charset == "utf8mb3" else column.charset or "utf8mb4"
