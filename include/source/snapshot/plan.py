"""Plans a snapshot: each table's size, key and chunks, and the least time that it takes at the limit of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from include.clock import Clock
from include.source.catalog.description import TableDescriber
from include.source.database.table_info import TableInfo, load_tables
from include.source.definition import SourceDefinition
from include.source.snapshot.condition import Condition, leaving
from include.source.snapshot.key_order import KeyOrder, quoted
from include.source.snapshot.reader import Measure, SnapshotReader

__all__ = ["SnapshotPlan", "TablePlan", "captured_tables", "chunk_rows", "full_names", "planned", "read_plan"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table; `rows` and `bytes` by the server's estimate, `key` empty where it has none."""

    table: str
    rows: int
    bytes: int
    key: tuple[str, ...]
    chunks: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """All tables of a snapshot; `rows_per_s` 0: no limit; `unknown`: names asked for that are not captured."""

    source: str
    workers: int
    rows_per_s: int
    tables: tuple[TablePlan, ...]
    unknown: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(each.rows for each in self.tables)

    @property
    def least_s(self) -> float | None:
        """The limit alone makes it take so long; None without one."""
        return self.rows / self.rows_per_s if self.rows_per_s else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "source": self.source,
            "workers": self.workers,
            "rows_per_s": self.rows_per_s,
            "rows": self.rows,
            "bytes": sum(each.bytes for each in self.tables),
            "least_s": None if self.least_s is None else round(self.least_s, 1),
            "tables": [asdict(each) for each in self.tables],
        }


def planned(info: TableInfo, measure: Measure, source: SourceDefinition) -> TablePlan:
    """The plan of one table."""
    divides = KeyOrder(info.columns, info.key, prefixed=info.key_prefixed).divides
    rows = chunk_rows(source.snapshot_chunk_rows, source.snapshot_chunk_bytes, measure)
    note = ""
    if not divides:
        why = "its key does not bound chunks" if info.key else "it has no key"
        note = f"read whole in one snapshot, as {why}"
    elif not info.transactional:
        note = f"{info.engine} has no snapshots: each row is of the moment at which it is read"
    chunks = max(1, -(-measure.rows // rows)) if divides else 1
    return TablePlan(".".join(info.name), measure.rows, measure.size_bytes, info.key, chunks, note)


def chunk_rows(most_rows: int, most_bytes: int, measure: Measure) -> int:
    """Rows of a chunk that is to hold neither more rows nor, by the server's estimate, more bytes; 100 at least."""
    return max(min(most_rows, most_bytes // measure.row_bytes), min(most_rows, 100))


def captured_tables(source: SourceDefinition, clock: Clock) -> list[str]:
    """Full names of the tables that the server has now and capture copies; raises as `connect` does."""
    reader = SnapshotReader(source, clock)
    try:
        return sorted(map(".".join, load_tables(reader.ask, source.databases, source.captures)))
    finally:
        reader.close()


def full_names(asked: tuple[str, ...], tables: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """Full names of the tables asked for (all without any), and those that are not captured."""
    if not asked:
        return tuple(sorted(tables)), []
    wanted: list[str] = []
    unknown: list[str] = []
    for name in asked:
        found = [full for full in sorted(tables) if name in (full, full.partition(".")[2])]
        wanted += found
        if not found:
            unknown.append(name)
    return tuple(dict.fromkeys(wanted)), unknown


def read_plan(
    name: str,
    source: SourceDefinition,
    tables: Iterable[str],
    where: str,
    rows_per_s: int | None,
    clock: Clock,
) -> SnapshotPlan:
    """Asks the server for the plan of a snapshot; reads no rows.

    Args:
        name: the source's.
        source: its definition.
        tables: names of the tables that are asked for; all captured ones without any.
        where: a condition on their rows (`snapshot.condition`), "" for all.
        rows_per_s: limit of rows a second, 0: none; None: as the source declares.
        clock: of the reader.

    Raises:
        ConditionError: `where` is no condition, or not one of a table.
        Terminal: the server refuses the account or the condition, or a table's rows cannot leave.
        Transient: the server does not answer.
    """
    reader = SnapshotReader(source, clock)
    try:
        infos = {
            ".".join(name): info for name, info in load_tables(reader.ask, source.databases, source.captures).items()
        }
        chosen, unknown = full_names(tuple(tables), infos)
        condition = Condition.parse(where)
        describer = TableDescriber(reader.server, source.policy)
        plans = []
        for table in chosen:
            database, _, own = table.partition(".")
            bound = condition.bound(leaving(describer.shape(infos[table])))
            if bound.sql:
                sql = f"SELECT 1 FROM {quoted(database)}.{quoted(own)} WHERE {reader.with_values(bound)} LIMIT 0"  # noqa: S608
                reader.ask(sql)
            plans.append(planned(infos[table], reader.measure(database, own), source))
    finally:
        reader.close()
    limit = source.snapshot_rows_per_s if rows_per_s is None else rows_per_s
    return SnapshotPlan(name, source.snapshot_workers, limit, tuple(plans), tuple(unknown))
