"""What captured tables look like: from `information_schema`, held against each table map.

A table map says what its rows were when they were written. Where the server's description of today fits it, that is
used: it knows more (UUID, VECTOR, keys, virtual columns). Where it does not (the table was altered since), the map's
own is used if it names and tells all; else the table cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import DATES, Column, TableSchema
from include.source.binlog.events import TableMap
from include.source.database.server import Server
from include.source.database.table_info import TableInfo, load_table, load_tables, unlogged
from include.source.policy.checks import check_columns, check_key
from include.source.policy.masks import Mask, masked_column
from include.source.policy.policy import Policy, TablePolicy
from include.source.rows.columns import hidden_hashes, mapped
from include.source.rows.layout import Layout, layout, mismatch
from include.source.rows.render import masked, masked_text
from include.source.rows.shape import TableShape
from include.source.rows.system_versioning import altered_until, logged_columns, until_of

__all__ = [
    "Cascades",
    "Catalog",
    "ChangesOthers",
    "Describe",
    "Load",
    "TableInfo",
    "load_table",
    "load_tables",
    "shape_of",
    "unlogged",
]

# About as long as a server takes for so many tables, one by one, it takes for thousands at once.
_MOST_ALONE: Final = 200

Load = Callable[[], Mapping[tuple[str, str], TableInfo]]
"""Captured tables by (database, name), as the server has them at the call."""
Describe = Callable[[str, str], TableInfo | None]
"""(database, table) → that table, as the server has it at the call; None where there is none."""
Cascades = Callable[[str, str], bool]
"""(database, table) → whether a foreign key cascades into it, at the call."""
ChangesOthers = Callable[[str, str], bool]
"""(database, table) → whether a change of it may change other tables, at the call; see `Catalog.changes_others`."""


def shape_of(
    name: tuple[str, str],
    columns: tuple[Column, ...],
    key: tuple[str, ...],
    nullable: frozenset[str],
    unlogged: frozenset[str],
    policy: TablePolicy,
    by: tuple[str, ...] = (),
) -> TableShape:
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
    dates = {each: masked_text(mask) for each, mask in masks.items() if plain[each].type in DATES}
    return TableShape(columns, schema, by, makers, dates)


class Catalog:
    """Layouts of captured tables, cached until `forget`. Not for several threads at once, but for `shape`.

    `load` is asked at the first need of all tables, or when many were needed one by one; `describe` whenever one is not
    known, was forgotten, or does not fit a map. Without `describe`, `load` is asked again.
    """

    def __init__(
        self,
        load: Load,
        server: Server,
        policy: Policy,
        cascades: Cascades = lambda _database, _table: False,
        describe: Describe | None = None,
        changes_others: ChangesOthers = lambda _database, _table: False,
        untraced: Cascades = lambda _database, _table: False,
    ) -> None:
        self._load = load
        self._describe: Describe = describe or (lambda database, table: self._load().get((database, table)))
        self._cascades, self._changes_others, self._untraced = cascades, changes_others, untraced
        self._server = server
        self._flavour: Flavour = server.flavour
        self._policy = policy
        self._whole = False
        self._alone = 0
        self._named: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], TableInfo | None] = {}
        self._by_map: dict[TableMap, Layout] = {}
        self._cascading: dict[tuple[str, str], bool] = {}
        self._changing: dict[tuple[str, str], bool] = {}

    def forget(self, names: Iterable[tuple[str, str]] | None = None) -> None:
        """A statement went by that may have altered these tables, None: any; or triggers, views and foreign keys."""
        self._changing.clear()
        if names is None:
            self._whole = False
            self._known.clear()
            self._by_map.clear()
            self._cascading.clear()
            return
        gone = set(names)
        self._named |= gone
        for name in gone:
            self._known.pop(name, None)
            self._cascading.pop(name, None)
        for table in [each for each in self._by_map if each.name in gone]:
            del self._by_map[table]

    @property
    def flavour(self) -> Flavour:
        """Whose server it is."""
        return self._flavour

    @property
    def lower_names(self) -> bool:
        """Whether the server keeps names of tables in small letters, however statements write them."""
        return self._server.lower_names

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        """All captured tables of the server."""
        if self._named or not self._whole:
            self._known = {}
            self._learn_all()
        return {name: info for name, info in self._known.items() if info is not None}

    def table(self, name: tuple[str, str]) -> TableInfo | None:
        """The table of that (database, name), None where there is none; the server describes no other for it."""
        if name in self._known:
            return self._known[name]
        if name not in self._named and not self._whole:
            self._alone += 1
            if self._alone > _MOST_ALONE:
                self._learn_all()
        if name in self._named or not self._whole:
            self._known[name] = self._describe(*name)
            self._named.discard(name)
        return self._known.get(name)

    def _learn_all(self) -> None:
        self._known = {**self._load(), **self._known}
        self._named.clear()
        self._whole, self._alone = True, 0

    def in_memory(self, database: str, table: str) -> bool:
        """Whether a restart of the server empties the table."""
        # Whether it is captured or not.
        info = self._known.get((database, table)) or self._describe(database, table)
        return info is not None and info.in_memory

    def cascades_into(self, name: tuple[str, str]) -> bool:
        """Whether a foreign key cascades into the table."""
        found = self._cascading.get(name)
        if found is None:
            found = self._cascading[name] = self._cascades(*name)
        return found

    def untraced_cascades(self, name: tuple[str, str]) -> bool:
        """Whether a foreign key cascades into the table without a trace in the binlog; asked anew at each call."""
        return self._untraced(*name)

    def changes_others(self, name: tuple[str, str]) -> bool:
        """Whether a statement that changes the table may change others too: by a view, a trigger or a foreign key.

        As the server has it now, as far as the account may see it.
        """
        if name not in self._changing:
            self._changing[name] = self._changes_others(*name)
        return self._changing[name]

    def shape(self, info: TableInfo) -> TableShape:
        """What leaves of a table as the server describes it, and as it is selected; raises `Terminal`."""
        until_of(info, logged_columns(info))
        without = unlogged(info, self._server)
        return self._shape(info.name, tuple(info.columns), info.key, info.nullable, without)

    def _shape(
        self,
        name: tuple[str, str],
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        nullable: Iterable[str],
        without: Iterable[str] = (),
    ) -> TableShape:
        # At every change of columns: a masked one that was renamed would leave in the clear.
        check_columns(self._policy, name, columns)
        check_key(self._policy, name, key or [column.name for column in columns])
        policy, by = self._policy.of(*name), self._policy.partition_columns(*name)
        return shape_of(name, columns, key, frozenset(nullable), frozenset(without), policy, by)

    def layout(self, table: TableMap) -> Layout:
        """The layout that rows under this map have; raises `Terminal` naming table, column, type."""
        if table.refusal is not None:
            raise table.refusal
        found = self._by_map.get(table)
        if found is None:
            found = self._by_map[table] = layout(table, self._shape_under(table), self._flavour)
        return found

    def _shape_under(self, table: TableMap) -> TableShape:
        name = table.name
        info = self.table(name)
        wrong = self._misfit(table, info)
        if wrong is not None:
            self.forget([name])
            info = self.table(name)
            wrong = self._misfit(table, info)
        if info is None or wrong is not None:
            return self._altered(table, info, wrong or ("", ""))
        columns, shape = self._logged(table, info), self.shape(info)
        return replace(shape, columns=columns, until=until_of(info, columns))

    def _misfit(self, table: TableMap, info: TableInfo | None) -> tuple[str, str] | None:
        if info is None:
            return "", "the table is gone"
        wrong = mismatch(table, self._logged(table, info), self._flavour)
        if wrong is not None or not (table.names and table.key):
            return wrong
        # A map names a primary key alone, which is first choice as a table's key.
        was = {table.names[i] for i in table.key} - {info.period[1] if info.period else ""}
        return None if was == set(info.key) else ("", f"its primary key was {', '.join(sorted(was))}")

    def _logged(self, table: TableMap, info: TableInfo) -> tuple[Column, ...]:
        """The columns that maps of the table have, with those that no server shows."""
        columns = logged_columns(info)
        if self._flavour == "mysql":
            return columns
        return columns + hidden_hashes(table, {column.name for column in columns}, info.hashed)

    def _altered(self, table: TableMap, info: TableInfo | None, wrong: tuple[str, str]) -> TableShape:
        """The shape by the map alone, for rows of before an ALTER."""
        name = table.name
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
            until = altered_until(table, info) if self._flavour == "mariadb" else None
        except (Terminal, ValueError) as untold:
            raise refusal from untold
        today = {column.name: column.type for column in info.columns} if info else {}
        for column in columns:
            # UUID, INET and VECTOR look the same in a MariaDB map.
            alike = self._flavour == "mariadb" and column.type in ("binary", "varbinary")
            if alike and today.get(column.name) != column.type:
                raise refusal
        key = tuple(table.names[i] for i in table.key if i != until)
        nullable = [n for n, null in zip(table.names, table.nullable, strict=True) if null]
        hidden = set(info.period or ()) - set(today) if info and until is not None else set()
        if self._flavour == "mariadb":
            hidden |= {column.name for column in hidden_hashes(table, today, 0)}
        return replace(self._shape(name, columns, key, nullable, hidden), until=until)
