"""What captured tables look like: from `information_schema`, held against each table map.

A table map says what its rows were when they were written. Where the server's description of today fits it, that is
used: it knows more (UUID, VECTOR, keys, virtual columns). Where it does not (the table was altered since), the map's
own is used if it names and tells all; else the table cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import Column, TableSchema
from include.source.columns import column_of, mapped
from include.source.events import TableMap
from include.source.layout import Layout, layout, mismatch
from include.source.masks import Mask, masked_column
from include.source.policy import Policy, TablePolicy
from include.source.policy_checks import check_columns, check_key
from include.source.render import masked
from include.source.server import Server
from include.source.shape import Shape

__all__ = ["Cascades", "Catalog", "Load", "TableInfo", "load_tables", "shape_of", "unlogged"]

_COLUMNS: Final = """
SELECT c.table_schema, c.table_name, c.column_name, c.column_type, c.numeric_precision, c.numeric_scale,
       c.datetime_precision, c.character_set_name, c.is_nullable, c.extra, t.table_type, t.engine
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema IN ({}) AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY c.table_schema, c.table_name, c.ordinal_position"""
_INDEXES: Final = """
SELECT table_schema, table_name, index_name, column_name, sub_part, nullable
FROM information_schema.statistics WHERE table_schema IN ({}) AND non_unique = 0
ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index"""

_ROUNDED: Final = re.compile(r"(?:float|double|real)\s*\(\s*\d+\s*,", re.IGNORECASE)
_OLD_TEMPORAL: Final = re.compile(r"/\*\s*(?:mariadb-5\.3|5\.5 binary format)\s*\*/", re.IGNORECASE)

Ask = Callable[..., list[tuple[Any, ...]]]
"""Runs one statement: `ask(sql, *values)`."""


class TableInfo:
    """A table as the server describes it today."""

    def __init__(self, database: str, table: str, engine: str = "InnoDB", versioned: bool = False) -> None:
        self.name = (database, table)
        self.engine = engine
        self.versioned = versioned
        self.columns: list[Column] = []
        self.nullable: set[str] = set()
        self.virtual: set[str] = set()
        self.stored: set[str] = set()
        self.rounded: set[str] = set()
        self.old_temporals: set[str] = set()
        self.key: tuple[str, ...] = ()

    def note_type(self, column: str, column_type: str) -> None:
        """Take in of COLUMN_TYPE what a column's own description leaves out."""
        if _ROUNDED.match(column_type):
            self.rounded.add(column)
        elif _OLD_TEMPORAL.search(column_type):
            self.old_temporals.add(column)

    def note_extra(self, column: str, extra: str) -> None:
        """Take in EXTRA of a column: whether the server computes it, and when."""
        words = extra.upper().split()
        if "VIRTUAL" in words:
            self.virtual.add(column)
        elif "STORED" in words or "PERSISTENT" in words:
            self.stored.add(column)

    @property
    def transactional(self) -> bool:
        """Whether its rows vanish with a rollback."""
        return self.engine.lower() in ("innodb", "rocksdb", "tokudb", "ndbcluster", "ndb")


Load = Callable[[], Mapping[tuple[str, str], TableInfo]]
"""Captured tables by (database, name), as the server has them at the call."""
Cascades = Callable[[str, str], bool]
"""(database, table) → whether a foreign key cascades into it, at the call."""


def load_tables(
    ask: Ask, databases: Iterable[str], captures: Callable[[str, str], bool]
) -> dict[tuple[str, str], TableInfo]:
    """Captured tables of the server. Two questions, whatever the number of tables."""
    names = list(databases)
    marks = ", ".join(["%s"] * len(names))
    tables: dict[tuple[str, str], TableInfo] = {}
    for row in ask(_COLUMNS.format(marks), *names):
        name = (str(row[0]), str(row[1]))
        if not captures(*name):
            continue
        info = tables.setdefault(name, TableInfo(*name, row[11] or "", row[10] == "SYSTEM VERSIONED"))
        info.columns.append(column_of(row[2], _text(row[3]), *row[4:8]))
        info.note_type(row[2], _text(row[3]))
        if row[8] == "YES":
            info.nullable.add(row[2])
        info.note_extra(row[2], str(row[9]))
    for name, key in _keys(ask(_INDEXES.format(marks), *names)).items():
        if name in tables:
            tables[name].key = key
    return tables


def _text(value: Any) -> str:
    """MySQL's COLUMN_TYPE comes as bytes where it is long."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _keys(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The primary key, else the first unique one over whole columns that are never null, of each table."""
    indexes: dict[tuple[str, str], dict[str, list[tuple[str, bool]]]] = {}
    for database, table, index, column, sub_part, nullable in rows:
        # A primary key over a column's beginning still names the row, with the whole column as key.
        fit = index == "PRIMARY" or (sub_part is None and nullable != "YES" and column is not None)
        indexes.setdefault((database, table), {}).setdefault(index, []).append((column, fit))
    found = {}
    for name, each in indexes.items():
        whole = [columns for columns in each.values() if all(fit for _, fit in columns)]
        if whole:
            found[name] = tuple(column for column, _ in whole[0])
    return found


def unlogged(info: TableInfo, server: Server) -> frozenset[str]:
    """Columns whose values the binlog does not tell.

    MariaDB logs virtual ones as they are, as null, or not at all, by version; 11.8 leaves stored ones out of the images
    of updates and deletes too (11.4 does not; between the two nothing was tried).
    """
    if server.flavour == "mysql":
        return frozenset()
    return frozenset(info.virtual | info.stored if server.version >= (11, 5, 0) else info.virtual)


def shape_of(
    name: tuple[str, str],
    columns: tuple[Column, ...],
    key: tuple[str, ...],
    nullable: frozenset[str],
    unlogged: frozenset[str],
    policy: TablePolicy,
    by: tuple[str, ...] = (),
) -> Shape:
    """What leaves of a table, without its columns that are `unlogged`.

    Raises `Terminal` for a column of a type that is not read, or a key that may not leave. Without a key all columns
    that leave are the key, as they are: null where they may be null.
    """
    masks: dict[str, Mask] = {}
    leaving = []
    for column in columns:
        if policy.ignores(column.name) or column.name in unlogged:
            continue
        mask = policy.mask(column.name)
        if mask is not None:
            masks[column.name] = mask
        leaving.append(column if mask is None else masked_column(column, mask))
    for column in leaving:
        try:
            column.avro()
        except Terminal as refused:
            raise Terminal(refused.message, fix=refused.fix, table=".".join(name), **refused.details) from None
    chosen = key or tuple(column.name for column in leaving if column.name not in masks)
    gone = [column for column in (*key, *by) if column in masks or column not in {each.name for each in leaving}]
    if gone or not chosen:
        raise Terminal(
            "a column of the key, or one that chooses the partition, is missing, ignored or masked",
            table=".".join(name),
            columns=gone,
            fix="Let it pass in `filter`, correct `partition_by`, or drop the table there.",
        )
    schema = TableSchema(*name, tuple(leaving), chosen, frozenset() if key else nullable & set(chosen))
    plain = {column.name: column for column in columns}
    makers = {each: masked(plain[each], mask) for each, mask in masks.items()}
    return Shape(columns, schema, by, makers)


class Catalog:
    """Layouts of captured tables, cached until `forget`; loaded at the first need, and once more at a mismatch."""

    def __init__(
        self,
        load: Load,
        server: Server,
        policy: Policy,
        cascades: Cascades = lambda _database, _table: False,
    ) -> None:
        self._load = load
        self._cascades = cascades
        self._server = server
        self._flavour: Flavour = server.flavour
        self._policy = policy
        self._tables: Mapping[tuple[str, str], TableInfo] | None = None
        self._by_map: dict[TableMap, Layout] = {}
        self._cascading: dict[tuple[str, str], bool] = {}

    def forget(self) -> None:
        """A DDL statement went by: what is known may be old."""
        self._tables = None
        self._by_map.clear()
        self._cascading.clear()

    @property
    def lower_names(self) -> bool:
        """Whether the server keeps names of tables in small letters, however statements write them."""
        return self._server.lower_names

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        """All captured tables of the server."""
        if self._tables is None:
            self._tables = self._load()
        return self._tables

    def cascades_into(self, name: tuple[str, str]) -> bool:
        """Whether a foreign key cascades into the table."""
        found = self._cascading.get(name)
        if found is None:
            found = self._cascading[name] = self._cascades(*name)
        return found

    def shape(self, info: TableInfo) -> Shape:
        """What leaves of a table as the server describes it; raises `Terminal`."""
        return self._shape(info.name, tuple(info.columns), info.key, info.nullable, unlogged(info, self._server))

    def _shape(
        self,
        name: tuple[str, str],
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        nullable: Iterable[str],
        without: Iterable[str] = (),
    ) -> Shape:
        # At every change of columns: a masked one that was renamed would leave in the clear.
        check_columns(self._policy, name, columns)
        check_key(self._policy, name, key or [column.name for column in columns])
        policy, by = self._policy.of(*name), self._policy.partition_columns(*name)
        return shape_of(name, columns, key, frozenset(nullable), frozenset(without), policy, by)

    def layout(self, table: TableMap) -> Layout:
        """The layout that rows under this map have; raises `Terminal` naming table, column, type."""
        found = self._by_map.get(table)
        if found is None:
            found = self._by_map[table] = layout(table, self._shape_under(table), self._flavour)
        return found

    def _shape_under(self, table: TableMap) -> Shape:
        name = (table.database, table.table)
        info = self.tables().get(name)
        wrong = mismatch(table, tuple(info.columns), self._flavour) if info else ("", "the table is gone")
        if wrong is not None:
            self.forget()
            info = self.tables().get(name)
            wrong = mismatch(table, tuple(info.columns), self._flavour) if info else wrong
        if info is not None and wrong is None:
            return self.shape(info)
        return self._altered(table, info, wrong or ("", ""))

    def _altered(self, table: TableMap, info: TableInfo | None, wrong: tuple[str, str]) -> Shape:
        """The shape by the map alone, for rows of before an ALTER."""
        name = (table.database, table.table)
        refusal = Terminal(
            "the table was altered since its rows were written, and the binlog does not say what it was",
            table=".".join(name),
            column=wrong[0],
            reason=wrong[1],
            fix="Read the table anew: `lyrebird capture resume-table`.",
        )
        if not table.names or (not table.key and (info is None or info.key)):
            raise refusal
        try:
            columns = mapped(table, self._flavour)
        except Terminal as untold:
            raise refusal from untold
        today = {column.name: column.type for column in info.columns} if info else {}
        for column in columns:
            # UUID, INET and VECTOR look the same in a MariaDB map.
            alike = self._flavour == "mariadb" and column.type in ("binary", "varbinary")
            if alike and today.get(column.name) != column.type:
                raise refusal
        key = tuple(table.names[i] for i in table.key)
        nullable = [n for n, null in zip(table.names, table.nullable, strict=True) if null]
        return self._shape(name, columns, key, nullable)
