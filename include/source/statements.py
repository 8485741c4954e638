"""Carries out statements on captured tables: control records, snapshots that are owed, descriptions that are old."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, Protocol

from include.log.control import ControlKind
from include.source.binlog.events import QueryEvent
from include.source.binlog.text.ddl import TableEffect, effects
from include.source.catalog.catalog import TableCatalog
from include.source.definition import SourceDefinition
from include.source.snapshot.watermark_window import WatermarkWindow
from include.source.state.capture_state import CaptureState

__all__ = ["Statements"]

log = logging.getLogger(__name__)

_UNKNOWN: Final = TableEffect("rows", "")
# The server stamps a statement with the whole second of its start.
_STAMP_US: Final = 1_000_000


class _Core(Protocol):
    """What of `Replicator` is used here."""

    state: CaptureState
    window: WatermarkWindow | None
    texts_passed: int

    def note_orphan(self, table: str, gtid: str, cause: str) -> None: ...

    def on_control(self, kind: ControlKind, table: str, gtid: str = "", floor: int | None = None) -> None: ...


class Statements:
    """Changes `core.state` and writes its control records."""

    def __init__(self, core: _Core, source: SourceDefinition, catalog: TableCatalog) -> None:
        self._core, self._source, self._catalog = core, source, catalog
        self._passed: set[tuple[str, str]] = set()

    def on_statement(self, query: QueryEvent, gtid: str, commit_us: int) -> frozenset[tuple[str, str]] | None:
        """Carry its effects out; the tables whose descriptions it may have made old, None: all."""
        catalog = self._catalog
        table_effects = effects(
            query.text,
            query.database,
            sql_mode=query.sql_mode,
            lower_names=catalog.lower_names,
            in_memory=catalog.in_memory,
            flavour=catalog.flavour,
        )
        mine = [effect for effect in table_effects if effect.kind != "rows" and self._concerns(effect)]
        old: frozenset[tuple[str, str]] | None = frozenset()
        if _UNKNOWN in table_effects or any(effect.kind == "drop_database" for effect in mine):
            old = None
        elif mine:
            names = [(effect.database, effect.table) for effect in mine]
            old = frozenset([*names, *(effect.to for effect in mine if effect.to)])
        changed = [(effect.database, effect.table) for effect in table_effects if effect.kind == "rows"]
        if old is None or old or not changed:
            catalog.forget(old)
        taken_over = {effect.to for effect in mine if effect.kind == "rename"}
        dropped = {f"{effect.database}.{effect.table}" for effect in mine if effect.kind == "drop"}
        known = self._core.state.tables.keys() - dropped
        for effect in mine:
            self._tell_window(effect)
            self._on_effect(effect, gtid, taken_over)
            if effect.kind in ("alter", "create"):
                self._on_alter(f"{effect.database}.{effect.table}", gtid, commit_us)
            if effect.kind in ("alter", "create", "rename"):
                name = effect.to or (effect.database, effect.table)
                # CREATE … IF NOT EXISTS of one that is there gives it nothing.
                made = effect.kind != "create" or ".".join(name) not in known
                self._on_keys(name, effect.parents if made else (), gtid)
        if changed:
            self._on_rows_as_text(changed, gtid)
        return old

    def _on_rows_as_text(self, tables: list[tuple[str, str]], gtid: str) -> None:
        """Rows changed that no event holds: captured tables are owed a snapshot, others are passed over, and counted.

        All captured tables are owed one where the text does not tell its tables, or the server then changes others too.
        """
        known = self._core.state.tables
        wide = next((name for name in tables if not name[1] or self._catalog.changes_others(name)), None)
        captured = [name for name in tables if self._source.captures(*name)]
        if wide is not None:
            owed = [table for table in known if self._source.captures(*table.split(".", 1))]
            why = f"a change of {'.'.join(wide)} changes other tables" if wide[1] else "it does not say of which tables"
        else:
            # A table that nobody has is a temporary one, or its drop or rename follows.
            owed = [".".join(name) for name in captured if ".".join(name) in known or self._catalog.table(name)]
            why = ""
        self._core.texts_passed += not owed
        for name in () if wide or captured else tables:
            if name not in self._passed:
                self._passed.add(name)
                log.warning("rows of %s, which is not captured, change by statements logged as text", ".".join(name))
        state = self._core.state
        for table in owed:
            state = state.with_table(table, known.get(table, 0))
        state = state.with_gap(f"gap:{gtid}:{owed[0] if len(owed) == 1 else '*'}", owed)
        if state is not self._core.state:
            self._core.state = state
            log.warning(
                "rows were changed by a statement that is logged as text, at %s%s: read again are %s. "
                "Set binlog_format = ROW for every session",
                gtid,
                f", and {why}" if why else "",
                "all captured tables" if wide else ", ".join(owed),
            )

    def _tell_window(self, effect: TableEffect) -> None:
        if self._core.window is None:
            return
        if effect.kind == "drop_database":
            gone = [table for table in self._core.window.tables if table.startswith(f"{effect.database}.")]
        else:
            names = [(effect.database, effect.table), *([effect.to] if effect.to else [])]
            gone = [".".join(name) for name in names]
        for table in gone:
            self._core.window.on_alter(table)

    def _concerns(self, effect: TableEffect) -> bool:
        if effect.kind == "drop_database":
            return effect.database in self._source.databases
        if effect.kind == "drop" and f"{effect.database}.{effect.table}" in self._core.state.left_out:
            # Its rows still stand in the log.
            return True
        captured = self._source.captures(effect.database, effect.table)
        return captured or (effect.to is not None and self._source.captures(*effect.to))

    def _on_effect(self, effect: TableEffect, gtid: str, taken_over: set[tuple[str, str] | None]) -> None:
        table = f"{effect.database}.{effect.table}"
        if effect.kind == "drop_database":
            for name in [t for t in self._core.state.tables if t.startswith(f"{effect.database}.")]:
                self._drop(name, gtid)
        elif effect.kind == "drop":
            self._drop(table, gtid)
        elif effect.kind == "truncate":
            self._core.on_control("truncate", table, gtid)
        elif effect.kind == "create":
            if table not in self._core.state.tables:
                self._core.state = self._core.state.with_table(table, 0)
        elif effect.kind == "alter":
            self._core.on_control("schema", table, gtid, floor=0)
        elif effect.kind == "reread":
            self._core.state = self._core.state.with_gap(f"gap:{gtid}:{table}", [table])
        elif effect.to is not None:
            if (
                self._source.captures(effect.database, effect.table)
                and (effect.database, effect.table) not in taken_over
            ):
                self._drop(table, gtid)
            if self._source.captures(*effect.to):
                new = ".".join(effect.to)
                self._core.state = self._core.state.with_table(new, self._core.state.tables.get(new, 0))
                self._core.state = self._core.state.with_gap(f"gap:{gtid}:{new}", [new])

    def _on_alter(self, table: str, gtid: str, commit_us: int) -> None:
        """Rows of before it may have been read as the server described the table after it: then they are read again.

        Maps that name no columns fit a table in which two of one type have changed places.
        """
        until_us = self._core.state.nameless.get(table)
        if until_us is None:
            return
        self._core.state = self._core.state.without_nameless(table)
        if commit_us <= until_us + _STAMP_US:
            log.warning("table %s is read again: it was altered before it was described, at %s", table, gtid)
            self._core.state = self._core.state.with_gap(f"gap:{gtid}:{table}", [table])

    def _on_keys(self, name: tuple[str, str], parents: Collection[tuple[str, str]], gtid: str) -> None:
        """A foreign key that a start would refuse has come: from now on the table may lack changes.

        Where capture was behind, the server may not have it any more: so the statement's own `parents` count, too.
        """
        table = ".".join(name)
        state = self._core.state
        if table not in state.tables or table in state.orphans or not self._source.captures(*name):
            return
        if self._catalog.untraced_cascades(name, parents):
            cause = "a foreign key changes its rows by cascade, which the server does not log"
            log.error("table %s may miss changes from %s on: %s", table, gtid, cause)
            self._core.note_orphan(table, gtid, cause)

    def _drop(self, table: str, gtid: str) -> None:
        if table in self._core.state.tables:
            self._core.on_control("drop", table, gtid)
            self._core.state = self._core.state.without_table(table)
