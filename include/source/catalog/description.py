"""Describes a table for the rows under a map: by the server's description of today, else by the map alone.

A table map says what its rows were when they were written. Where the server's description of today fits it, that is
used: it knows more (UUID, VECTOR, keys, virtual columns). Where it does not (the table was altered since), the map's
own is used if it names and tells all; else the table cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from include.errors import Terminal
from include.policy.checks import check_columns, check_key
from include.policy.policy import Policy
from include.record.schema import Column
from include.source.binlog.table_map import TableMap
from include.source.catalog.system_versioning import altered_until, logged_columns, until_of
from include.source.database.server import Server
from include.source.database.table_info import TableInfo, unlogged
from include.source.rows.columns import hidden_hashes, mapped
from include.source.rows.layout import Layout, layout, layout_of, mismatch
from include.source.rows.leaving import shape_of
from include.source.rows.shape import TableShape

__all__ = ["ColumnMismatch", "TableDescriber"]


class ColumnMismatch(NamedTuple):
    """A difference between a map and the server's description of today: the column, "" for the whole table, and why."""

    column: str
    reason: str


class TableDescriber:
    """Describes tables of one server under one policy; asks nobody and keeps nothing: several threads may call it."""

    def __init__(self, server: Server, policy: Policy) -> None:
        self._server, self._policy = server, policy

    def shape(self, info: TableInfo) -> TableShape:
        """The shape of a table as the server describes it, and as it is selected; raises `Terminal`."""
        until_of(info, logged_columns(info))
        return self._shape(info.name, tuple(info.columns), info.key, info.nullable, unlogged(info, self._server))

    def today(self, table: TableMap, info: TableInfo | None) -> Layout | ColumnMismatch:
        """The layout by the server's description, None: it has no such table; raises `Terminal` as `shape` does."""
        if info is None:
            return ColumnMismatch("", "the table is gone")
        # Maps have columns, too, that no server shows.
        columns, flavour = logged_columns(info), self._server.flavour
        if flavour == "mariadb":
            columns += hidden_hashes(table, {column.name for column in columns}, info.hashed)
        if wrong := mismatch(table, columns, flavour):
            return ColumnMismatch(*wrong)
        if table.names and table.key:
            # A map names a primary key alone, which is first choice as a table's key.
            was = {table.names[i] for i in table.key} - {info.period[1] if info.period else ""}
            if was != set(info.key):
                return ColumnMismatch("", f"its primary key was {', '.join(sorted(was))}")
        return layout_of(table, replace(self.shape(info), columns=columns, until=until_of(info, columns)))

    def altered(self, table: TableMap, info: TableInfo | None, misfit: ColumnMismatch) -> Layout:
        """The layout by the map alone, for rows of before an ALTER; `Terminal` where it tells too little."""
        flavour = self._server.flavour
        refusal = Terminal(
            "the table was altered since its rows were written, and the binlog does not say what it was",
            table=".".join(table.name),
            column=misfit.column,
            reason=misfit.reason,
            fix="Read the table anew: `lyrebird capture resume-table`.",
        )
        if not table.names or (not table.key and (info is None or info.key)):
            raise refusal
        try:
            columns = mapped(table, flavour)
            until = altered_until(table, info) if flavour == "mariadb" else None
        except (Terminal, ValueError) as untold:
            raise refusal from untold
        today = {column.name: column.type for column in info.columns} if info else {}
        for column in columns:
            # UUID, INET and VECTOR look the same in a MariaDB map.
            alike = flavour == "mariadb" and column.type in ("binary", "varbinary")
            if alike and today.get(column.name) != column.type:
                raise refusal
        key = tuple(table.names[i] for i in table.key if i != until)
        nullable = [n for n, null in zip(table.names, table.nullable, strict=True) if null]
        hidden = set(info.period or ()) - set(today) if info and until is not None else set()
        if flavour == "mariadb":
            hidden |= {column.name for column in hidden_hashes(table, today, 0)}
        return layout(table, replace(self._shape(table.name, columns, key, nullable, hidden), until=until), flavour)

    def _shape(
        self,
        name: tuple[str, str],
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        nullable: Iterable[str],
        without: Iterable[str],
    ) -> TableShape:
        # At every change of columns: a masked one that was renamed would leave in the clear.
        check_columns(self._policy, name, columns)
        check_key(self._policy, name, key or [column.name for column in columns])
        policy, by = self._policy.of(*name), self._policy.partition_columns(*name)
        return shape_of(name, columns, key, frozenset(nullable), frozenset(without), policy, by)
