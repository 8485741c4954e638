"""The server of a session: what it tells of its tables, its transactions after a position, its rows in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, Protocol

from typing_extensions import override

from include.clock import Clock
from include.record.position import SourcePosition
from include.source.beside import beside
from include.source.binlog.open_group import SurvivesRollback
from include.source.binlog.step import PlainRun
from include.source.binlog.transaction import SourceTransaction
from include.source.database.binlog_files import BinlogFiles
from include.source.database.cascades import cascades_into, changes_others, untraced_cascades
from include.source.database.connection import QueryConnection, asked, server_of
from include.source.database.failover import there
from include.source.database.history import require_history
from include.source.database.server import AskServer, Server
from include.source.database.table_info import TableInfo, load_table, load_tables, table_names
from include.source.database.transaction_stream import BinlogIdle, TransactionStream
from include.source.definition import SourceDefinition
from include.source.ports import SessionWatcher
from include.source.snapshot.reader import SnapshotReader, first_position
from include.source.state.capture_state import WaitingXa

__all__ = ["Flow", "LiveServer", "Upstream"]

# By then what was committed while capture was away is on its way, and may have the processor for itself.
_START_S: Final = 5.0


class Flow(Protocol):
    """What of `TransactionStream` is used here."""

    def next(self, timeout_s: float) -> PlainRun | SourceTransaction | BinlogIdle | None:
        """Plain transactions, or what at most one event completes; None too when none came within `timeout_s`."""

    def waiting(self, known: tuple[WaitingXa, ...], position: SourcePosition) -> tuple[WaitingXa, ...]:
        """`known`, less what the last transaction ended, with what it prepared; `position` is the one before it."""

    def heard(self) -> None:
        """The server's silence counts from now."""

    def close(self) -> None:
        """Hang up; may be called twice."""


class Upstream(Protocol):
    """Every call may ask the server, and raises `Transient` when it does not answer."""

    @property
    def server(self) -> Server:
        """What it is."""

    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        """Captured tables by (database, name), as they are at the call."""

    def check(self) -> None:
        """Raise what was found out about the server meanwhile; cheap, asked often."""

    def names(self) -> list[tuple[str, str]]:
        """Names of the captured tables, as they are at the call."""

    def table(self, database: str, table: str) -> TableInfo | None:
        """That table, as it is at the call; None where there is none."""

    def cascades_into(self, database: str, table: str) -> bool:
        """Whether a foreign key cascades into the table."""

    def untraced_cascades(self, database: str, table: str) -> bool:
        """Whether a foreign key changes rows of the table of which the binlog has no trace."""

    def changes_others(self, database: str, table: str) -> bool:
        """Whether a statement that changes rows of the table may change those of others, as far as one may see."""

    def now_us(self) -> int:
        """Its clock, µs UTC."""

    def there(self, position: SourcePosition) -> SourcePosition:
        """`position` with a place in this server's own files; raises `Reset` where its numbers mean others there."""

    def flow(
        self, position: SourcePosition, waiting: tuple[WaitingXa, ...], survives: SurvivesRollback, clock: Clock
    ) -> Flow:
        """Its transactions after `position`; `waiting` are the XA transactions that were prepared there."""

    def first_position(self, clock: Clock, watcher: SessionWatcher) -> SourcePosition | None:
        """Where a stream may begin that is to see whole transactions; None when asked to stop."""

    def reader(self, source: SourceDefinition, clock: Clock) -> SnapshotReader:
        """One more connection that reads tables; called by several threads."""


class LiveServer(Upstream):
    """The server that a source names."""

    def __init__(self, name: str, source: SourceDefinition, clock: Clock) -> None:
        """Ask what it is."""
        self._name, self._source, self._clock = name, source, clock
        self._server = server_of(source)
        self._asked = QueryConnection(source)
        self._question: Callable[[], None] | None = None
        self._due_s = 0.0
        self._answer: Future[None] | None = None

    def look(self, question: Callable[[], None]) -> None:
        """Ask something beside all else, once the start is over; what it raises, `check` raises."""
        self._question, self._due_s = question, self._clock.monotonic_s() + _START_S

    @override
    def check(self) -> None:
        if self._question is not None and self._clock.monotonic_s() >= self._due_s:
            self._answer, self._question = beside(self._question, "look"), None
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            answer.result()

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._asked.close()

    @property
    @override
    def server(self) -> Server:
        return self._server

    @override
    def tables(self) -> Mapping[tuple[str, str], TableInfo]:
        source = self._source
        return asked(source, lambda ask: load_tables(ask, source.databases, source.captures))

    @override
    def names(self) -> list[tuple[str, str]]:
        source = self._source
        return asked(source, lambda ask: table_names(ask, source.databases, source.captures))

    @override
    def table(self, database: str, table: str) -> TableInfo | None:
        return self._asked(lambda ask: load_table(ask, database, table))

    @override
    def cascades_into(self, database: str, table: str) -> bool:
        return self._asked(lambda ask: cascades_into(ask, database, table))

    @override
    def untraced_cascades(self, database: str, table: str) -> bool:
        return self._asked(lambda ask: untraced_cascades(ask, self._server, database, table))

    @override
    def changes_others(self, database: str, table: str) -> bool:
        return self._asked(lambda ask: changes_others(ask, database, table))

    @override
    def now_us(self) -> int:
        return self._asked(lambda ask: round(float(ask("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]) * 1_000_000))

    @override
    def there(self, position: SourcePosition) -> SourcePosition:
        files = BinlogFiles(self._source, self._clock)

        def question(ask: AskServer) -> SourcePosition:
            require_history(ask, position, files, self._source.place)
            return there(ask, self._server, position)

        return asked(self._source, question)

    @override
    def flow(
        self, position: SourcePosition, waiting: tuple[WaitingXa, ...], survives: SurvivesRollback, clock: Clock
    ) -> Flow:
        return TransactionStream(self._source, self._source.replica_id(self._name), position, waiting, survives, clock)

    @override
    def first_position(self, clock: Clock, watcher: SessionWatcher) -> SourcePosition | None:
        return first_position(self._source, clock, watcher)

    @override
    def reader(self, source: SourceDefinition, clock: Clock) -> SnapshotReader:
        return SnapshotReader(source, clock)
