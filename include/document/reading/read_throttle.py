"""Counts what an assembler reads from the source's database, and keeps it to a rate.

One connection reads, one snapshot at a time (of large batches as many as `read_connections`), so rows a second are what
is left to bound. They are paid for after they were read (a token bucket that may go below zero), between snapshots: one
that is open while nobody reads holds up the server's purge for nothing. Nor does anybody wait longer than `MOST_S`
within one batch, as a transaction ends by itself after minutes. What a batch still owes it pays before the next one
begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from typing_extensions import override

from include.clock import Clock
from include.document.reading.tables import KEYS_AT_ONCE, RowKeys, SourceTables, TableRow, Tables
from include.pace import TokenBucket
from include.record.position import SourcePosition
from include.record.schema import Column

__all__ = ["Metered", "ReadLoad"]

MOST_S: Final = 60.0
"""Longest wait within one batch, and before one."""
_SLICE_S: Final = 0.5
_LEAST_S: Final = 0.001


class ReadLoad:
    """Counts of one process; `rows_per_s` 0: no limit."""

    def __init__(self, rows_per_s: int, clock: Clock) -> None:
        self.rows = 0
        self.statements = 0
        self.held_back_s = 0.0
        self.snapshot_s = 0.0
        """The longest that a snapshot of this batch was open."""
        self._clock = clock
        self._rate = TokenBucket(rows_per_s, clock, burst_s=1.0)
        self._left_s = MOST_S

    def counts(self) -> tuple[int, int, float]:
        """Rows, statements, seconds held back, since the start."""
        return self.rows, self.statements, self.held_back_s

    def begin(self) -> None:
        """A batch is about to begin: pay what the last one owes."""
        self._left_s = MOST_S
        self.wait()
        self._left_s = MOST_S
        self.snapshot_s = 0.0

    def read(self, rows: int, statements: int = 1, snapshot_s: float = 0.0) -> None:
        """Statements gave so many rows, which are to be paid for; `snapshot_s`: of one that others had open."""
        self.snapshot_s = max(self.snapshot_s, snapshot_s)
        self.rows += rows
        self.statements += statements
        self._rate.take(rows)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Pays first; the time until the end counts as a snapshot's."""
        self.wait()
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self.snapshot_s = max(self.snapshot_s, self._clock.monotonic_s() - began_s)

    def wait(self) -> None:
        """Until all is paid for, unless this batch has waited too long. Not for use within a snapshot."""
        while (due_s := min(self._rate.owed_s(), self._left_s)) > _LEAST_S:
            slice_s = min(due_s, _SLICE_S)
            self._clock.sleep(slice_s)
            self._left_s -= slice_s
            self.held_back_s += slice_s


class Metered(SourceTables):
    """`SourceTables` whose reads are counted and kept to a rate."""

    def __init__(self, tables: SourceTables, load: ReadLoad) -> None:
        self._source = tables
        self._load = load

    @contextmanager
    @override
    def snapshot(self, after: SourcePosition | None = None) -> Iterator[Tables]:
        with self._load.open(), self._source.snapshot(after) as tables:
            yield _MeteredTables(tables, self._load)

    @override
    def columns(self, table: str) -> dict[str, Column]:
        """Not counted, as they are asked for at a start."""
        return self._source.columns(table)

    @override
    def forget(self) -> None:
        self._source.forget()


class _MeteredTables:
    def __init__(self, tables: Tables, load: ReadLoad) -> None:
        self._tables = tables
        self._load = load

    def rows(
        self, table: str, columns: Sequence[str], match: Sequence[str], values: RowKeys, most: int | None = None
    ) -> list[TableRow]:
        found = self._tables.rows(table, columns, match, values, most)
        self._load.read(len(found), -(-len(values) // KEYS_AT_ONCE))
        return found

    def newest(
        self, table: str, columns: Sequence[str], match: Sequence[str], value: tuple[Any, ...], by: str, limit: int
    ) -> list[TableRow]:
        found = self._tables.newest(table, columns, match, value, by, limit)
        self._load.read(len(found))
        return found

    def folded(self, table: str, match: Sequence[str], values: RowKeys) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return self._tables.folded(table, match, values)

    def keys_after(
        self,
        table: str,
        columns: Sequence[str],
        after: tuple[Any, ...] | None,
        limit: int,
        where: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        found = self._tables.keys_after(table, columns, after, limit, where)
        self._load.read(len(found))
        return found

    def columns(self, table: str) -> dict[str, Column]:
        return self._tables.columns(table)
