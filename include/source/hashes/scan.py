"""The database's side of a comparison: hashes of a table's rows, range by range, each in a snapshot of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from include.errors import Terminal
from include.policy.policy import TablePolicy
from include.record.position import SourcePosition
from include.source.database.table_info import TableInfo
from include.source.hashes.columns import ComparedRows, Incomparable, server_digest
from include.source.hashes.server_sql import UNHASHED, leaf_rows, leaf_sums
from include.source.hashes.sums import HashSum
from include.source.rows.shape import TableShape
from include.source.snapshot.condition import Condition, leaving
from include.source.snapshot.key_order import KeyOrder, quoted
from include.source.snapshot.reader import DescribedTable, SnapshotReader
from include.source.snapshot.watermark_window import SnapshotSpan
from include.source.state.key_range import Bound, KeyRange

__all__ = ["ScannedRange", "TableScan"]


@dataclass(frozen=True)
class ScannedRange:
    """The leaves of a range that have rows, as of a snapshot: `span` says which transactions it has."""

    span: SnapshotSpan
    leaves: Mapping[int, HashSum]

    @property
    def rows(self) -> int:
        """Number of rows that were read."""
        return sum(each.rows for each in self.leaves.values())


class TableScan:
    """One table. Not for several threads at once.

    `rows` says what is compared. Every method raises `Terminal` when the table has been altered, or dropped, since it
    was made: what was found so far is of other columns.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        database: str,
        table: str,
        policy: TablePolicy,
        shape: Callable[[TableInfo], TableShape],
        where: str = "",
    ) -> None:
        """Learn the table's columns and key.

        Args:
            reader: a connection of its own.
            database: its own name.
            table: its own name.
            policy: of the table.
            shape: what leaves of it.
            where: a condition on its rows (`snapshot.condition`), '' for all.

        Raises:
            Terminal: there is no such table.
            Incomparable: its engine has no snapshots, or its key's rows cannot be told apart.
        """
        self._reader, self._name = reader, (database, table)
        described = reader.describe(database, table)
        if described is None:
            raise Terminal("there is no such table", table=self._called, fix="Name it as the server does.")
        if not described.info.transactional:
            raise Incomparable(
                "a table whose engine has no snapshots cannot be compared while it is written to",
                table=self._called,
                engine=described.info.engine,
                fix="ALTER TABLE … ENGINE=InnoDB.",
            )
        shaped = shape(described.info)
        self._described = _description(described)
        digest = server_digest(reader.server.flavour, reader.server.version)
        keyless = not described.info.key
        self.rows = ComparedRows.of(shaped.columns, shaped.schema, policy, digest, keyless=keyless)
        self._order = KeyOrder(described.info.columns, described.info.key, prefixed=described.info.key_prefixed)
        chosen = Condition.parse(where).bound(leaving(shaped))
        self._where = f"({reader.with_values(chosen)})" if chosen.sql else ""

    @property
    def divides(self) -> bool:
        """Whether the table can be read in ranges; else it is one, in one snapshot that holds back purge meanwhile."""
        return self._order.divides

    def boundary(self, left: KeyRange, rows: int) -> Bound | None:
        """The key that ends the first so many rows of a range; None where it has no more, or the table is one range."""
        if not self.divides:
            return None
        sql = f"SELECT {self._order.bound} FROM {self._quoted}{_all_of(self._chosen(left))}"  # noqa: S608
        found = self._reader.ask(f"{sql} ORDER BY {self._order.order} LIMIT 1 OFFSET {rows - 1}")
        return (
            tuple(each.decode("ascii") if isinstance(each, bytes) else str(each) for each in found[0])
            if found
            else None
        )

    def leaves(self, part: KeyRange, bits: int, beyond: SourcePosition | None = None) -> ScannedRange:
        """The leaves of a range, in a snapshot that has all up to `beyond`; raises `Terminal` for rows too long."""
        sql = leaf_sums(self._quoted, self.rows, bits, self._chosen(part))
        span, found = self._in_snapshot(sql, beyond)
        self._require_short(sum(int(total) // UNHASHED for _, _, total in found))
        sums = {int(leaf): HashSum(int(rows), int(total)) for leaf, rows, total in found}
        return ScannedRange(span, sums)

    def rows_of(
        self, part: KeyRange, bits: int, leaves: Iterable[int], beyond: SourcePosition | None = None
    ) -> tuple[SnapshotSpan, dict[str, str]]:
        """Text of the key → text of the row, of these leaves of a range; snapshot and errors as `leaves`."""
        sql = leaf_rows(self._quoted, self.rows, bits, leaves, self._chosen(part))
        span, found = self._in_snapshot(sql, beyond)
        self._require_short(sum(row is None for _, row in found))
        return span, {_text(key): _text(row) for key, row in found}

    def _require_short(self, long: int) -> None:
        if long:
            raise Terminal(
                "rows are longer than max_allowed_packet lets the server make a text",
                table=self._called,
                rows=long,
                fix="Raise max_allowed_packet at the server, or leave the long columns out (`ignored_columns`).",
            )

    def _in_snapshot(self, sql: str, beyond: SourcePosition | None) -> tuple[SnapshotSpan, list[tuple[Any, ...]]]:
        span = self._reader.open(beyond)
        try:
            found = self._reader.describe(*self._name)
            if found is None or _description(found) != self._described:
                raise Terminal(
                    "the table was altered or dropped while it was compared",
                    table=self._called,
                    fix="Compare it again.",
                )
            return span, self._reader.ask(sql)
        finally:
            self._reader.end()

    def _chosen(self, part: KeyRange) -> str:
        return " AND ".join(each for each in (self._order.condition(part), self._where) if each)

    @property
    def _quoted(self) -> str:
        return ".".join(map(quoted, self._name))

    @property
    def _called(self) -> str:
        return ".".join(self._name)


def _description(found: DescribedTable) -> tuple[object, ...]:
    return found.sorted_by, tuple(found.info.columns), found.info.key, found.info.engine


def _all_of(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
