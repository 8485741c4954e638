"""The port by which an assembler reads the source's database, and the in-memory double.

Adapters: `document.reading.mysql`. Both pass `tests/contract/test_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from typing_extensions import override

from include.errors import Terminal
from include.record.position import SourcePosition
from include.record.schema import Column

__all__ = ["KEYS_AT_ONCE", "MemoryTables", "NoSuchTable", "RowKeys", "SourceTables", "TableRow", "Tables"]

TableRow = Mapping[str, Any]
"""Column → value as Avro takes it (`document.schema`): int, float, str, bytes, Decimal, None; times as integers."""

RowKeys = Sequence[tuple[Any, ...]]

KEYS_AT_ONCE: Final = 1_000
"""Values of one statement; more are asked for by several."""


class NoSuchTable(Terminal):
    """The database has no table of that name, at this moment."""


class Tables(Protocol):
    """One consistent moment of the database.

    Raises `Transient` when the server goes away, `NoSuchTable` for a table that is not there.
    """

    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
    ) -> list[TableRow]:
        """Rows in which the columns `match` equal one of `values`, in no order; values hold no None.

        With `most` only distinct ones (of each thousand values), and no more than that.
        """

    def newest(
        self, table: str, columns: Sequence[str], match: Sequence[str], value: tuple[Any, ...], by: str, limit: int
    ) -> list[TableRow]:
        """Rows in which the columns `match` equal `value`, the greatest of column `by` first, `limit` at most.

        With an index of `match` that goes on with `by` (InnoDB's go on with the primary key) no more rows are read than
        come.

        Args:
            table: name of the table.
            columns: that are read.
            match: columns that rows are found by.
            value: of `match`; it holds no None.
            by: column whose greatest values come first.
            limit: most rows.
        """

    def folded(self, table: str, match: Sequence[str], values: RowKeys) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """For each of `values` what it shares with all that the columns `match` hold equal to it; not with others.

        A value that is not in the answer is equal to itself alone.
        """

    def keys_after(
        self,
        table: str,
        columns: Sequence[str],
        after: tuple[Any, ...] | None,
        limit: int,
        where: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The next distinct values of `columns` above `after` (None: from the least), ascending, `limit` at most.

        As the columns compare: of values that they hold equal there is one; null is the least. With `where` only of
        rows in which these columns equal these values.
        """

    def columns(self, table: str) -> dict[str, Column]:
        """As `SourceTables.columns`: by them the values of `rows` have been read."""


class SourceTables(Protocol):
    """The database."""

    def snapshot(self, after: SourcePosition | None = None) -> AbstractContextManager[Tables]:
        """All that is read inside is of one moment, which has all transactions up to `after`.

        Waits, within bounds, for a server that lacks some; then `Transient`.
        """

    def columns(self, table: str) -> dict[str, Column]:
        """The table's columns by name; `Terminal` when there is no such table. May be remembered until `forget`."""

    def forget(self) -> None:
        """Ask for columns anew: a table may have been altered."""


class MemoryTables(Tables):
    """Tables in memory; a snapshot is a copy. `reads` counts calls of `rows`, `given` the rows that came of questions.

    `fold`: what texts have in common that are held equal.
    """

    def __init__(
        self,
        tables: Mapping[str, list[dict[str, Any]]],
        columns: Mapping[str, Sequence[Column]],
        fold: Callable[[str], str] = str,
    ) -> None:
        self.tables = {name: list(rows) for name, rows in tables.items()}
        self.fold = fold
        self.reads = 0
        self.given = 0
        self._columns = columns

    @contextmanager
    def snapshot(self, after: SourcePosition | None = None) -> Iterator[Tables]:
        """A copy of the tables as they are now, which is never before what the log tells."""
        copy = MemoryTables(self.tables, self._columns, self.fold)
        try:
            yield copy
        finally:
            self.reads += copy.reads
            self.given += copy.given

    @override
    def columns(self, table: str) -> dict[str, Column]:
        """As declared at construction."""
        return {column.name: column for column in self._columns[table]}

    def forget(self) -> None:
        """Nothing is remembered."""

    @override
    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
    ) -> list[TableRow]:
        self.reads += 1
        wanted = {self._folded(value) for value in values}
        matching: list[TableRow] = [
            {name: row[name] for name in columns}
            for row in self._rows(table)
            if self._folded(tuple(row[name] for name in match)) in wanted
        ]
        if most is not None:
            matching = list({tuple(row.values()): row for row in matching}.values())[:most]
        self.given += len(matching)
        return matching

    @override
    def newest(
        self, table: str, columns: Sequence[str], match: Sequence[str], value: tuple[Any, ...], by: str, limit: int
    ) -> list[TableRow]:
        wanted = self._folded(value)
        found = [row for row in self._rows(table) if self._folded(tuple(row[name] for name in match)) == wanted]
        found = sorted(found, key=lambda row: row[by], reverse=True)[:limit]
        self.given += len(found)
        return [{name: row[name] for name in columns} for row in found]

    @override
    def folded(self, table: str, match: Sequence[str], values: RowKeys) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {} if self.fold is str else {value: self._folded(value) for value in values}

    @override
    def keys_after(
        self,
        table: str,
        columns: Sequence[str],
        after: tuple[Any, ...] | None,
        limit: int,
        where: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        match, wanted = tuple(where or ()), self._folded(tuple((where or {}).values()))
        one_of_each = {
            self._ordered(key): key
            for row in reversed(self._rows(table))
            if self._folded(tuple(row[name] for name in match)) == wanted
            for key in [tuple(row[name] for name in columns)]
        }
        low = () if after is None else self._ordered(after)
        return [one_of_each[key] for key in sorted(one_of_each) if key > low][:limit]

    def _ordered(self, values: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
        return tuple((value is not None, value) for value in self._folded(values))

    def _folded(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.fold(value) if isinstance(value, str) else value for value in values)

    def _rows(self, table: str) -> list[dict[str, Any]]:
        if table not in self.tables:
            raise NoSuchTable("no such table", table=table)
        return self.tables[table]
