"""Tables as `information_schema` describes them today: columns, keys, engines, periods of system-versioned tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from include.record.schema import Column
from include.source.database.server import Server
from include.source.rows.columns import column_of

__all__ = [
    "HIDDEN_END",
    "HIDDEN_START",
    "AskServer",
    "TableInfo",
    "load_table",
    "load_tables",
    "table_names",
    "unlogged",
]

HIDDEN_START: Final = "row_start"
HIDDEN_END: Final = "row_end"
"""What the columns of a system-versioned table's period are called that does not declare any."""

# Each of its own: servers look for every column's table anew where the two are joined.
_TABLES: Final = """
SELECT table_schema, table_name, table_type, engine
FROM information_schema.tables WHERE {} AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"""
_COLUMNS: Final = """
SELECT table_schema, table_name, column_name, column_type, numeric_precision, numeric_scale,
       datetime_precision, character_set_name, is_nullable, extra
FROM information_schema.columns WHERE {} ORDER BY table_schema, table_name, ordinal_position"""
_INDEXES: Final = """
SELECT table_schema, table_name, index_name, column_name, sub_part, nullable, index_type
FROM information_schema.statistics WHERE {} AND non_unique = 0
ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index"""
# Only servers that have such tables are asked: older ones do not know of generated columns.
_PERIODS: Final = """
SELECT table_schema, table_name, column_name, generation_expression
FROM information_schema.columns WHERE {} AND generation_expression IN ('ROW START', 'ROW END')"""

_ROUNDED: Final = re.compile(r"(?:float|double|real)\s*\(\s*\d+\s*,", re.IGNORECASE)
_OLD_TEMPORAL: Final = re.compile(r"/\*\s*(?:mariadb-5\.3|5\.5 binary format)\s*\*/", re.IGNORECASE)

AskServer = Callable[..., list[tuple[Any, ...]]]
"""Runs one statement: `ask(sql, *values)`."""


class TableInfo:
    """A table as the server describes it today.

    `key` names the primary key's columns, else those of a unique one that is never null; () without either;
    `key_prefixed`: it is over the beginning of a column. `hashed`: how many unique indexes MariaDB keeps as hashes in
    columns that it shows nowhere. Of a system-versioned table `period` names the columns that say since when and until
    when a row is valid, both hidden unless they are among `columns`; the latter is not in `key`.
    """

    def __init__(self, database: str, table: str, engine: str = "InnoDB", versioned: bool = False) -> None:
        self.name = (database, table)
        self.engine = engine
        self.period = (HIDDEN_START, HIDDEN_END) if versioned else None
        self.columns: list[Column] = []
        self.nullable: set[str] = set()
        self.virtual: set[str] = set()
        self.stored: set[str] = set()
        self.rounded: set[str] = set()
        self.old_temporals: set[str] = set()
        self.key: tuple[str, ...] = ()
        self.key_prefixed = False
        self.hashed = 0

    @property
    def versioned(self) -> bool:
        """Whether the table keeps what its rows were."""
        return self.period is not None

    @property
    def by_transactions(self) -> bool:
        """Whether its period is counted in transactions: MariaDB logs changes of such a table as text."""
        return self.period is not None and any(c.name in self.period and c.type == "bigint" for c in self.columns)

    def note_type(self, column: str, column_type: str) -> None:
        """Take in of COLUMN_TYPE what a column's own description leaves out."""
        if _ROUNDED.match(column_type):
            self.rounded.add(column)
        elif _OLD_TEMPORAL.search(column_type):
            self.old_temporals.add(column)

    def note_extra(self, column: str, extra: str) -> None:
        """Take in EXTRA of a column: whether the server computes it, and when."""
        words = re.split(r"[\s,]+", extra.upper())
        if "VIRTUAL" in words:
            self.virtual.add(column)
        elif "STORED" in words or "PERSISTENT" in words:
            self.stored.add(column)

    def note_period(self, column: str, bound: str) -> None:
        """Take in that a column is the period's `ROW START` or `ROW END`, which the log has as they are."""
        start, end = self.period or (HIDDEN_START, HIDDEN_END)
        self.period = (start, column) if bound == "ROW END" else (column, end)
        self.stored.discard(column)
        self.virtual.discard(column)

    @property
    def in_memory(self) -> bool:
        """Whether a restart of the server empties it."""
        return self.engine.lower() in ("memory", "heap")

    @property
    def transactional(self) -> bool:
        """Whether its rows vanish with a rollback."""
        return self.engine.lower() in ("innodb", "rocksdb", "tokudb", "ndbcluster", "ndb")


def table_names(
    ask: AskServer, databases: Iterable[str], captures: Callable[[str, str], bool]
) -> list[tuple[str, str]]:
    """Names of captured tables of the server, sorted; far less work for it than `load_tables`."""
    names = list(databases)
    found = ask(_TABLES.format(_among(names)), *names)
    return sorted(name for row in found if captures(*(name := (str(row[0]), str(row[1])))))


def load_tables(
    ask: AskServer, databases: Iterable[str], captures: Callable[[str, str], bool]
) -> dict[tuple[str, str], TableInfo]:
    """Captured tables of the server. Three or four questions, whatever the number of tables."""
    names = list(databases)
    return _loaded(ask, _among(names), names, captures)


def load_table(ask: AskServer, database: str, table: str) -> TableInfo | None:
    """One table, None where there is none of that name; the server opens no other."""
    found = _loaded(ask, "table_schema = %s AND table_name = %s", [database, table], lambda *_: True)
    # A server that keeps small letters may say another name than it was asked for.
    return next(iter(found.values()), None)


def _loaded(
    ask: AskServer, condition: str, values: list[str], captures: Callable[[str, str], bool]
) -> dict[tuple[str, str], TableInfo]:
    tables: dict[tuple[str, str], TableInfo] = {}
    for database, table, kind, engine in ask(_TABLES.format(condition), *values):
        name = (str(database), str(table))
        if captures(*name):
            tables[name] = TableInfo(*name, engine or "", kind == "SYSTEM VERSIONED")
    for row in ask(_COLUMNS.format(condition), *values):
        info = tables.get((row[0], row[1]))
        # None: of a view, or of a table that was made between the two questions.
        if info is not None:
            _note_column(info, *row[2:])
    # Dropped between the two questions.
    tables = {name: info for name, info in tables.items() if info.columns}
    if any(info.versioned for info in tables.values()):
        for database, table, column, bound in ask(_PERIODS.format(condition), *values):
            if (database, table) in tables:
                tables[database, table].note_period(column, str(bound))
    parts = ask(_INDEXES.format(condition), *values)
    for name in {(row[0], row[1]) for row in parts if row[2] == "PRIMARY" and row[4] is not None}:
        if name in tables:
            tables[name].key_prefixed = True
    _note_hashes(tables, parts)
    for name, key in _keys(parts).items():
        if name in tables:
            period = tables[name].period
            tables[name].key = tuple(column for column in key if period is None or column != period[1])
    return tables


def _note_column(info: TableInfo, name: str, column_type: Any, *described: Any) -> None:
    kind, (*measures, nullable, extra) = _text(column_type), described
    info.columns.append(column_of(name, kind, *measures))
    info.note_type(name, kind)
    if nullable == "YES":
        info.nullable.add(name)
    if extra:
        info.note_extra(name, str(extra))


def _note_hashes(tables: dict[tuple[str, str], TableInfo], parts: Iterable[tuple[Any, ...]]) -> None:
    hashed = Counter((database, table) for database, table, _ in {row[:3] for row in parts if row[6] == "HASH"})
    for name, info in tables.items():
        # Tables in memory have such indexes without columns for them.
        info.hashed = 0 if info.in_memory else hashed[name]


def _among(databases: list[str]) -> str:
    return f"table_schema IN ({', '.join(['%s'] * len(databases))})"


def _text(value: Any) -> str:
    """MySQL's COLUMN_TYPE comes as bytes where it is long."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _keys(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The primary key, else the first unique one over whole columns that are never null, of each table."""
    indexes: dict[tuple[str, str], dict[str, list[tuple[str, bool]]]] = {}
    for database, table, index, column, sub_part, nullable, _ in rows:
        # A primary key over a column's beginning still names the row, with the whole column as key.
        fit = index == "PRIMARY" or (sub_part is None and nullable != "YES" and column is not None)
        indexes.setdefault((database, table), {}).setdefault(index, []).append((column, fit))
    keys = {}
    for name, each in indexes.items():
        whole = [columns for columns in each.values() if all(fit for _, fit in columns)]
        if whole:
            keys[name] = tuple(column for column, _ in whole[0])
    return keys


def unlogged(info: TableInfo, server: Server) -> frozenset[str]:
    """Columns whose values the binlog does not tell.

    MariaDB logs virtual ones as they are, as null, or not at all, by version; 11.8 leaves stored ones out of the images
    of updates and deletes too (11.4 does not; between the two nothing was tried).
    """
    if server.flavour == "mysql":
        return frozenset()
    return frozenset(info.virtual | info.stored if server.version >= (11, 5, 0) else info.virtual)
