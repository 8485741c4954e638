"""What an assembler may ask of the source's database, and the in-memory double.

Adapters: `document.mysql`. Both pass `tests/contract/test_tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from include.errors import Terminal
from include.record.position import SourcePosition
from include.record.schema import Column

__all__ = ["KEYS_AT_ONCE", "Keys", "MemoryTables", "NoSuchTable", "Row", "SourceTables", "Tables"]

Row = Mapping[str, Any]
"""Column → value as Avro takes it (`document.schema`): int, float, str, bytes, Decimal, None; times as integers."""

Keys = Sequence[tuple[Any, ...]]

KEYS_AT_ONCE: Final = 1_000
"""Values of one statement; more are asked for by several."""


class NoSuchTable(Terminal):
    """The database has no table of that name, at this moment."""


class Tables(Protocol):
    """One consistent moment of the database.

    Raises `Transient` when the server goes away, `NoSuchTable` for a table that is not there.
    """

    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: Keys, most: int | None = None
    ) -> list[Row]:
        """Rows in which the columns `match` equal one of `values`, in no order; values hold no None.

        With `most` only distinct ones (of each thousand values), and no more than that.
        """

    def keys_after(
        self, table: str, columns: Sequence[str], after: tuple[Any, ...] | None, limit: int
    ) -> list[tuple[Any, ...]]:
        """The next distinct values of `columns` above `after` (None: from the least), ascending, `limit` at most."""


class SourceTables(Protocol):
    """The database."""

    def snapshot(self, after: SourcePosition | None = None) -> AbstractContextManager[Tables]:
        """All that is read inside is of one moment, which has all transactions up to `after`.

        Waits, within bounds, for a server that lacks some; then `Transient`.
        """

    def columns(self, table: str) -> dict[str, Column]:
        """The table's columns by name; `Terminal` when there is no such table."""


class MemoryTables:
    """Tables in memory; a snapshot is a copy. `reads` counts calls of `rows`."""

    def __init__(self, tables: Mapping[str, list[dict[str, Any]]], columns: Mapping[str, Sequence[Column]]) -> None:
        self.tables = {name: list(rows) for name, rows in tables.items()}
        self.reads = 0
        self._columns = columns

    @contextmanager
    def snapshot(self, after: SourcePosition | None = None) -> Iterator[Tables]:
        """A copy of the tables as they are now, which is never before what the log tells."""
        copy = MemoryTables(self.tables, self._columns)
        try:
            yield copy
        finally:
            self.reads += copy.reads

    def columns(self, table: str) -> dict[str, Column]:
        """As declared at construction."""
        return {column.name: column for column in self._columns[table]}

    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: Keys, most: int | None = None
    ) -> list[Row]:
        """See `Tables`."""
        self.reads += 1
        wanted = set(values)
        found: list[Row] = [
            {name: row[name] for name in columns}
            for row in self._rows(table)
            if tuple(row[name] for name in match) in wanted
        ]
        if most is None:
            return found
        distinct = {tuple(row.values()): row for row in found}
        return list(distinct.values())[:most]

    def keys_after(
        self, table: str, columns: Sequence[str], after: tuple[Any, ...] | None, limit: int
    ) -> list[tuple[Any, ...]]:
        """See `Tables`."""
        found = sorted({tuple(row[name] for name in columns) for row in self._rows(table)})
        return [key for key in found if after is None or key > after][:limit]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        if table not in self.tables:
            raise NoSuchTable("no such table", table=table)
        return self.tables[table]
