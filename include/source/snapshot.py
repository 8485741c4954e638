"""Reads tables in one consistent snapshot that knows its place in the binlog. Takes no lock, writes nothing.

MariaDB: `binlog_snapshot_*` inside START TRANSACTION WITH CONSISTENT SNAPSHOT was exact in 1,000 of 1,000 trials under
writers; SHOW MASTER STATUS before it was not. MySQL: `gtid_executed` equal before and after it was exact in 598 of 598.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor, SSCursor

from include.clock import Clock
from include.errors import Terminal, Transient
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.source.connection import connect, error_of, query
from include.source.definition import SourceDefinition
from include.source.ports import Watcher
from include.source.server import Ask, Server, read_server
from include.source.shape import Image, Shape
from include.source.tables import TableInfo, load_tables
from include.source.text import row_reader, select_list
from include.source.xa import prepared, wait_until_ended

__all__ = ["Snapshot", "snapshot_beyond", "snapshot_of_all"]

_BEGIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_MOST_TRIES: Final = 2000
_SETTLE_S: Final = 2.0
# A table without an index in its key's order is sorted before the first row comes.
_READ_TIMEOUT_S: Final = 600.0


class Snapshot:
    """An open consistent snapshot: every row read is as it was at `position`. Close it soon: it holds back purge."""

    def __init__(self, source: SourceDefinition, clock: Clock) -> None:
        """Open it; raises `Transient` or `Terminal` as `connect` does."""
        self._source = source
        self._connection: Connection[Cursor] = connect(source, _READ_TIMEOUT_S)
        try:
            self.position = self._open(clock)
        except BaseException:
            self.close()
            raise

    def tables(self) -> dict[tuple[str, str], TableInfo]:
        """Captured tables, described on the snapshot's own connection."""

        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return query(self._connection, self._source, sql, *values)

        return load_tables(ask, self._source.databases, self._source.captures)

    def rows(self, shape: Shape) -> Iterator[Image]:
        """All rows of a table in key order, streamed; read to the end before the next call."""
        read, table = row_reader(shape), shape.schema
        key = ", ".join(f"`{name.replace('`', '``')}`" for name in table.key)
        database, name = (part.replace("`", "``") for part in (table.database, table.table))
        sql = f"SELECT {select_list(shape)} FROM `{database}`.`{name}` ORDER BY {key}"  # noqa: S608 - quoted names
        try:
            with self._raw() as cursor:
                cursor.execute(sql)
                for row in cursor:
                    yield read(row)
        except pymysql.err.MySQLError as refusal:
            raise error_of(refusal, self._source) from refusal

    def close(self) -> None:
        """End it; may be called twice."""
        if self._connection.open:
            self._connection.close()

    def _raw(self) -> SSCursor:
        """A cursor that streams rows as the bytes that the server sent."""
        self._connection.use_unicode = False
        self._connection.decoders = {}
        return self._connection.cursor(SSCursor)

    def _open(self, clock: Clock) -> SourcePosition:
        def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return query(self._connection, self._source, sql, *values)

        ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        server = read_server(ask)
        if server.flavour == "mariadb":
            return self._open_mariadb(ask, clock)
        return self._open_mysql(ask, clock, server) if server.gtids else self._open_by_file(ask, clock, server)

    def _open_mariadb(self, ask: Ask, clock: Clock) -> SourcePosition:
        before_us = clock.now_us()
        ask(_BEGIN)
        status = {str(name).lower(): str(value) for name, value in ask("SHOW STATUS LIKE 'binlog_snapshot_%'")}
        file, pos = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
        if not file or not pos.isdigit():
            raise self._nowhere()
        gtids = ask("SELECT BINLOG_GTID_POS(%s, %s)", file, int(pos))[0][0] or ""
        return SourcePosition("mariadb", parse_gtid_set(gtids, "mariadb"), BinlogPosition(file, int(pos)), before_us)

    def _open_mysql(self, ask: Ask, clock: Clock, server: Server) -> SourcePosition:
        """Exact when no transaction committed while the snapshot was opened: tried until that is so."""
        for _ in range(_MOST_TRIES):
            before_us = clock.now_us()
            at = _binlog_end(ask, server)
            first = ask("SELECT @@global.gtid_executed")[0][0]
            ask(_BEGIN)
            if ask("SELECT @@global.gtid_executed")[0][0] == first:
                if at is None:
                    raise self._nowhere()
                return SourcePosition("mysql", parse_gtid_set(first, "mysql"), at, before_us)
            ask("ROLLBACK")
        raise Transient(
            "the server never paused long enough to tell a snapshot's place",
            system="mysql",
            server=self._source.place,
            tries=_MOST_TRIES,
        )

    def _open_by_file(self, ask: Ask, clock: Clock, server: Server) -> SourcePosition:
        """A server without GTIDs tells no exact place, so one from before the snapshot is taken.

        It is old enough that all transactions up to it were finished in the engine too; those after it that the
        snapshot saw come once more.
        """
        before_us = clock.now_us()
        at = _binlog_end(ask, server)
        if at is None:
            raise self._nowhere()
        clock.sleep(_SETTLE_S)
        ask(_BEGIN)
        return SourcePosition("mysql", parse_gtid_set("", "mysql"), at, before_us)

    def _nowhere(self) -> Terminal:
        return Terminal(
            "the server does not tell where its snapshot stands",
            server=self._source.place,
            fix="Is log_bin on? `lyrebird capture check` tells.",
        )


def snapshot_of_all(source: SourceDefinition, clock: Clock, watcher: Watcher) -> Snapshot | None:
    """One to begin with, while no XA transaction is prepared, as its rows were lost to it; None when asked to stop."""
    while wait_until_ended(source, clock, watcher):
        snapshot = Snapshot(source, clock)
        if not prepared(source):
            return snapshot
        snapshot.close()
    return None


def snapshot_beyond(source: SourceDefinition, clock: Clock, position: SourcePosition) -> Snapshot:
    """One that has all up to `position`: the binlog is sent before the engine commits. Raises `Transient`."""
    for _ in range(200):
        snapshot = Snapshot(source, clock)
        if snapshot.position.covers(position):
            return snapshot
        snapshot.close()
        clock.sleep(0.02)
    raise Transient("no snapshot reaches the stream's position", system="mysql", position=str(position.gtids))


def _binlog_end(ask: Ask, server: Server) -> BinlogPosition | None:
    rows = ask(server.binlog_status)
    return BinlogPosition(str(rows[0][0]), int(rows[0][1])) if rows else None
