"""Consistent snapshots that know their place in the binlog. They take no lock, write nothing, and are open briefly.

What was committed before one was opened is in it (`record.settling` tells where that is), and nothing is that was not
logged after it; the two are equal where nobody commits meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from include.clock import Clock
from include.errors import Terminal, Transient
from include.record.gtid import parse_gtid_set
from include.record.position import BinlogPosition, SourcePosition
from include.record.settling import COMMITTED, Settling, committed_place
from include.source.database.connection import connect, query
from include.source.database.server import Server, read_server
from include.source.database.table_info import TableInfo, load_table
from include.source.database.xa import prepared, wait_until_ended
from include.source.definition import SourceDefinition
from include.source.ports import SessionWatcher
from include.source.rows.shape import EncodedImage, TableShape
from include.source.rows.text_rows import select_rows
from include.source.server_errors import error_of
from include.source.snapshot.condition import Predicate
from include.source.snapshot.key_order import quoted
from include.source.snapshot.watermark_window import SnapshotSpan

__all__ = ["DescribedTable", "Measure", "SnapshotReader", "first_position"]

_BEGIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_AGAIN_S: Final = 0.01
_MOST_TRIES: Final = 1000
# A range is read without a pause but for the reader's own; a whole table without a key may be sorted first.
_READ_TIMEOUT_S: Final = 600.0
# Zero and impossible dates may bound a range, and CHAR must not be padded.
# A disk that holds rows back for a while ends no SELECT, nor does a limit of rows a second end the connection.
_SESSION: Final = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', net_write_timeout = 3600, wait_timeout = 28800"


_NO_TABLE: Final = (1146, 1049)
_SORTED_BY: Final = (
    "SELECT column_name, column_type, collation_name FROM information_schema.columns "
    "WHERE table_schema = %s AND table_name = %s"
)
_MEASURE: Final = (
    "SELECT table_rows, data_length FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
)


class DescribedTable(NamedTuple):
    """A table; `sorted_by` changes whenever its key, or the order of it, does. Empty without a key."""

    info: TableInfo
    sorted_by: str


class Measure(NamedTuple):
    """A table's size by the server's estimate: `rows`, and bytes of them all."""

    rows: int
    size_bytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, self.size_bytes // max(1, self.rows))


class SnapshotReader:
    """One connection: opens a snapshot, reads in it, ends it, and again. Not for several threads."""

    def __init__(self, source: SourceDefinition, clock: Clock) -> None:
        """Connect; raises `Transient` or `Terminal` as `connect` does."""
        self._source, self._clock = source, clock
        self._connection: Connection[Cursor] = connect(source, _READ_TIMEOUT_S)
        try:
            self.ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self.ask(_SESSION)
            self.server: Server = read_server(self.ask)
            self._settling = Settling(self.ask, self.server.version, self.server.binlog_status, clock)
        except BaseException:
            self.close()
            raise

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement; raises what `query` raises."""
        return query(self._connection, self._source, sql, *values)

    def open(self, beyond: SourcePosition | None = None) -> SnapshotSpan:
        """Begin a snapshot that has all up to `beyond`: a server sends its binlog before the engine commits."""
        for _ in range(_MOST_TRIES):
            span = self._begin()
            if beyond is None or span.low.covers(beyond):
                return span
            self.end()
            self._clock.sleep(_AGAIN_S)
        raise Transient(
            "no snapshot reaches the stream's position",
            system="mysql",
            server=self._source.place,
            position=str(beyond.gtids if beyond and str(beyond.gtids) else beyond and beyond.binlog),
        )

    def place(self) -> SourcePosition:
        """The position at which the server's binlog ends at this moment."""
        at = self._binlog_end()
        variable = "gtid_binlog_pos" if self.server.flavour == "mariadb" else "gtid_executed"
        gtids = self.ask(f"SELECT @@global.{variable}")[0][0] if self.server.gtids else ""
        return self._position(gtids, at, self._clock.now_us())

    def describe(self, database: str, table: str) -> DescribedTable | None:
        """The table as it is, and stays until the snapshot's end; None when there is none of that name."""
        try:
            # Whoever alters it waits for us from here on, but for less than it takes to read a range.
            self.ask(f"SELECT 1 FROM {quoted(database)}.{quoted(table)} LIMIT 0")  # noqa: S608 - quoted
        except Terminal as refusal:
            if refusal.details.get("code") in _NO_TABLE:
                return None
            raise
        info = load_table(self.ask, database, table)
        if info is None:
            return None
        columns = {row[0]: f"{row[1]} {row[2] or ''}" for row in self.ask(_SORTED_BY, database, table)}
        return DescribedTable(info, "; ".join(f"{name} {columns[name]}" for name in info.key))

    def measure(self, database: str, table: str) -> Measure:
        """About how large it is, as the server estimates."""
        rows, size = (self.ask(_MEASURE, database, table) or [(0, 0)])[0]
        return Measure(int(rows or 0), int(size or 0))

    def select(self, sql: str, shape: TableShape) -> Iterator[list[EncodedImage]]:
        """The images of a SELECT of `text.select_list`, as they arrive."""
        try:
            yield from select_rows(self._connection, sql, shape)
        except pymysql.err.MySQLError as refusal:
            raise error_of(refusal, self._source) from refusal

    def with_values(self, predicate: Predicate) -> str:
        """The SQL with its values as literals of this session."""
        with self._connection.cursor() as cursor:
            return cursor.mogrify(predicate.sql, predicate.values)

    def end(self) -> None:
        """End the snapshot."""
        self.ask("ROLLBACK")

    def interrupt(self) -> None:
        """Let the thread that reads fail at once with `Transient`; for another thread to call, which does not wait."""
        raw: socket.socket | None = self._connection._sock  # type: ignore[attr-defined]  # noqa: SLF001
        if raw is not None:
            # A close would wait for the reader, and would not wake it. Of TLS no goodbye: that is not for two threads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(raw, socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - a QUIT would not be read

    def _begin(self) -> SnapshotSpan:
        before_us = self._clock.now_us()
        if self.server.flavour == "mariadb":
            low = self.place()
            self._await_committed(self._binlog_end())
        else:
            low = self.place() if self.server.gtids else self._position("", self._settling.place(), before_us)
        self.ask(_BEGIN)
        high = self.place()
        return SnapshotSpan(low, low if low.covers(high) else high)

    def _await_committed(self, end: BinlogPosition) -> None:
        """Wait until MariaDB's engine has committed all before `end`: with AFTER_SYNC, until a replica has it."""
        committed: BinlogPosition | None = None
        for _ in range(_MOST_TRIES):
            committed = committed_place(self.ask(COMMITTED))
            if committed is None:
                raise self._nowhere()
            if committed >= end:
                return
            self._clock.sleep(_AGAIN_S)
        raise Transient(
            "the engine does not commit what the server has logged",
            system="mysql",
            server=self._source.place,
            logged=str(end),
            committed=str(committed),
            fix="Does a replica answer (`rpl_semi_sync_master_wait_point`)? The snapshot is tried again.",
        )

    def _position(self, gtids: object, at: BinlogPosition, commit_us: int) -> SourcePosition:
        flavour = self.server.flavour
        return SourcePosition(flavour, parse_gtid_set(str(gtids or ""), flavour), at, commit_us)

    def _binlog_end(self) -> BinlogPosition:
        rows = self.ask(self.server.binlog_status)
        if not rows:
            raise self._nowhere()
        return BinlogPosition(str(rows[0][0]), int(rows[0][1]))

    def _nowhere(self) -> Terminal:
        return Terminal(
            "the server does not tell where its snapshot stands",
            server=self._source.place,
            fix="Is log_bin on? `lyrebird capture check` tells.",
        )


def first_position(
    source: SourceDefinition,
    clock: Clock,
    watcher: SessionWatcher,
    reader: Callable[[SourceDefinition, Clock], SnapshotReader] = SnapshotReader,
) -> SourcePosition | None:
    """Finds a position where a stream may begin that is to see whole transactions; None at a stop request.

    No XA transaction is prepared there: its rows would stand in the binlog before it.
    """
    while wait_until_ended(source, clock, watcher):
        opened = reader(source, clock)
        try:
            position = opened.open().low
        finally:
            opened.close()
        if not prepared(source):
            return position
    return None
