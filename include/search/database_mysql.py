"""The tables of a MySQL or MariaDB server, with the position that a snapshot is of.

What the engine has committed before is in the snapshot: `record.settling` tells how far that is.
An account that may not ask (BINLOG MONITOR on MariaDB) reads all the same, without positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from include.clock import Clock
from include.document.definition import DocumentDefinition, database_of
from include.document.reading.mysql import MysqlTables
from include.document.reading.tables import Tables
from include.errors import Terminal, Transient
from include.record.gtid import Flavour, parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.settling import COMMITTED, committed_place
from include.settings.deployment import Deployment

__all__ = ["PositionedMysql", "primary_tables"]


_AGAIN_S: Final = 0.01
_MOST_TRIES: Final = 50
_READ_S: Final = 5.0
"""Longest wait for one answer: a reader waits for it, and holds one of few connections."""


def primary_tables(deployment: Deployment, document: DocumentDefinition, clock: Clock) -> PositionedMysql:
    """The tables that a document is read from, on the server that its source captures, never on a replica."""
    server = database_of(deployment, document.model_copy(update={"read_from": None}))
    return PositionedMysql(MysqlTables(server, document.database, read_s=_READ_S), clock)


class PositionedMysql:
    """`PositionedTables` of a MySQL or MariaDB server. Belongs to one thread at a time."""

    def __init__(self, tables: MysqlTables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self._flavour: Flavour | None = None
        self._tells = True
        self.columns, self.forget = tables.columns, tables.forget
        self.close = tables.close

    @contextmanager
    def moment(self) -> Iterator[tuple[Tables, SourcePosition | None]]:
        """The snapshot comes after the position, so that it holds it; MariaDB is waited for until its engine has."""
        before = self.newest()
        if before is None:
            self._wake()
        elif self._flavour == "mariadb" and not self._is_committed(before.binlog):
            before = None
        with self._tables.snapshot() as snapshot:
            yield snapshot, before

    def newest(self) -> SourcePosition | None:
        """The commit time is taken for now."""
        if not self._tells:
            return None
        self._wake()
        try:
            if self._flavour is None:
                version = str(self._ask("SELECT VERSION()")[0][0])
                self._flavour = "mariadb" if "mariadb" in version.lower() else "mysql"
            variable = "gtid_binlog_pos" if self._flavour == "mariadb" else "gtid_executed"
            gtids = str(self._ask(f"SELECT @@global.{variable}")[0][0])
            found = self._ask("SHOW MASTER STATUS" if self._flavour == "mariadb" else self._mysql_status())
        except Terminal:
            self._tells = False
            return None
        return self._position(gtids, str(found[0][0]), int(found[0][1])) if found else None

    def _wake(self) -> None:
        """Connect anew when the server has given up a connection that was idle."""
        try:
            self._ask("SELECT 1")
        except Transient:
            self._ask("SELECT 1")

    def _is_committed(self, end: BinlogPosition) -> bool:
        """Whether MariaDB's engine has committed all that is logged before `end`, now or in a moment."""
        for again in range(_MOST_TRIES):
            at = committed_place(self._ask(COMMITTED.replace("%", "%%")))
            if at is None:
                return False
            if at >= end:
                return True
            self._clock.sleep(_AGAIN_S if again else 0.0)
        return False

    def _mysql_status(self) -> str:
        major, minor = str(self._ask("SELECT VERSION()")[0][0]).split(".")[:2]
        return "SHOW BINARY LOG STATUS" if (int(major), int(minor)) >= (8, 2) else "SHOW MASTER STATUS"

    def _position(self, gtids: str, file: str, pos: int) -> SourcePosition:
        flavour = self._flavour or "mariadb"
        return SourcePosition(flavour, parse_gtid_set(gtids, flavour), BinlogPosition(file, pos), self._clock.now_us())

    def _ask(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        # The tables' own connection: only there a snapshot says which position it is of.
        return self._tables._execute(statement, arguments)  # noqa: SLF001
