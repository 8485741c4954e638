"""The one owner of what tables are: asks the server once, describes each table map once, until a DDL goes by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from include.policy.policy import Policy
from include.record.gtid import Flavour
from include.source.binlog.events import TableMap
from include.source.catalog.description import ColumnMismatch, TableDescriber
from include.source.database.cascades import traces
from include.source.database.server import Server
from include.source.database.table_info import TableInfo
from include.source.rows.layout import Layout
from include.source.rows.shape import TableShape

__all__ = ["Cascades", "ChangesOthers", "Describe", "LoadTables", "TableCatalog"]

# About as long as a server takes for so many tables, one by one, it takes for thousands at once.
_MOST_ALONE: Final = 200

LoadTables = Callable[[], Mapping[tuple[str, str], TableInfo]]
"""Captured tables by (database, name), as the server has them at the call."""
Describe = Callable[[str, str], TableInfo | None]
"""(database, table) → that table, as the server has it at the call; None where there is none."""
Cascades = Callable[[str, str], bool]
"""(database, table) → whether a foreign key cascades into it, at the call."""
ChangesOthers = Callable[[str, str], bool]
"""(database, table) → whether a change of it may change other tables, at the call."""


class TableCatalog:
    """Layouts of captured tables, cached until `forget`. Not for several threads at once, but for `shape`.

    Args:
        load: gives all captured tables; asked at the first need of all, or when many were needed one by one.
        server: the source's.
        policy: says what leaves of each table.
        cascades: whether a foreign key cascades into a table.
        describe: gives one table; asked whenever one is not known, was forgotten, or does not fit a map. None: `load`
            is asked again.
        changes_others: whether a change of a table may change other tables.
        untraced: whether a foreign key changes rows of a table of which the binlog has no trace.
    """

    def __init__(
        self,
        load: LoadTables,
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
        self._describer = TableDescriber(server, policy)
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
        return self._server.flavour

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
        """Whether a foreign key cascades into the table, and the binlog may lack rows that it changes."""
        found = self._cascading.get(name)
        if found is None:
            found = self._cascading[name] = traces(self._server) != "rows" and self._cascades(*name)
        return found

    def untraced_cascades(self, name: tuple[str, str], parents: Collection[tuple[str, str]] = ()) -> bool:
        """Whether a foreign key cascades into the table without a trace in the binlog; asked anew at each call.

        `parents`: of such keys that a statement gave it, which may be gone by now.
        """
        trace = traces(self._server)
        given = name in parents if trace == "maps" else bool(parents) and trace == "none"
        return given or self._untraced(*name)

    def changes_others(self, name: tuple[str, str]) -> bool:
        """Whether a statement that changes the table may change others too: by a view, a trigger or a foreign key.

        As the server has it now, as far as the account may see it.
        """
        if name not in self._changing:
            self._changing[name] = self._changes_others(*name)
        return self._changing[name]

    def shape(self, info: TableInfo) -> TableShape:
        """The shape of a table as the server describes it, and as it is selected; raises `Terminal`."""
        return self._describer.shape(info)

    def layout(self, table: TableMap) -> Layout:
        """The layout that rows under this map have; raises `Terminal` naming table, column, type."""
        if table.refusal is not None:
            raise table.refusal
        found = self._by_map.get(table)
        if found is None:
            found = self._by_map[table] = self._described(table)
        return found

    def _described(self, table: TableMap) -> Layout:
        info = self.table(table.name)
        today = self._describer.today(table, info)
        if isinstance(today, ColumnMismatch):
            self.forget([table.name])
            info = self.table(table.name)
            today = self._describer.today(table, info)
        return self._describer.altered(table, info, today) if isinstance(today, ColumnMismatch) else today
