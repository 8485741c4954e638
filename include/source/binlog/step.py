"""Definitions of what is read from a binlog: transactions of rows and statements, runs of them, heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from include.record.position import BinlogPosition
from include.source.binlog.events import QueryEvent, RowOp
from include.source.binlog.gtid_event import Xid
from include.source.binlog.table_map import TableMap
from include.source.native import RunParts

__all__ = [
    "Heartbeat",
    "LoggedText",
    "PlainRun",
    "PreparedXa",
    "RowsEvent",
    "SourceStep",
    "SourceTransaction",
    "TransactionSteps",
]


class LoggedText:
    """A statement's text as the server logged it; nobody pays for its decoding who does not read it."""

    __slots__ = ("_raw", "_text")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._text: str | None = None

    @property
    def text(self) -> str:
        """As UTF-8, whatever the client's charset: it only informs."""
        if self._text is None:
            self._text = self._raw.decode("utf-8", "replace")
        return self._text


class RowsEvent:
    """Rows of one table that one event carries, not yet decoded. Not to be changed.

    `body` begins with the width and is not compressed; `partial`: after images may hold differences of JSON documents;
    `query` is the statement's text, where the server logged it. (No dataclass: made for each few hundred bytes.)
    """

    __slots__ = ("_query", "body", "op", "partial", "table")

    def __init__(
        self, table: TableMap, op: RowOp, body: bytes, partial: bool = False, query: str | LoggedText | None = None
    ) -> None:
        self.table, self.op, self.body, self.partial = table, op, body, partial
        self._query = query

    @property
    def query(self) -> str | None:
        """See the class."""
        return self._query.text if isinstance(self._query, LoggedText) else self._query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowsEvent) and self._all() == other._all()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "RowsEvent({!r}, {!r}, {!r}, {!r}, {!r})".format(*self._all())

    def _all(self) -> tuple[TableMap, RowOp, bytes, bool, str | None]:
        return self.table, self.op, self.body, self.partial, self.query


SourceStep = RowsEvent | QueryEvent


class TransactionSteps(Protocol):
    """Steps in the order of the binlog; may lie on disk. Each `iter` begins at the first."""

    def __iter__(self) -> Iterator[SourceStep]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """A committed transaction, or a group that left nothing (no steps), which moves the position all the same.

    Attributes:
        gtid: "" when the server has none.
        end: the byte after it.
        commit_us: the server's stamp, µs UTC; whole seconds where the server has no better one.
        steps: captured rows and all statements; may lie on disk, can be iterated again.
        size_bytes: bytes of `steps`.
        thread: id of the connection, None where the server does not log it.
        orphans: captured tables that a map announced without any rows: a cascade that the log does not show, or a
            trigger that did nothing.
    """

    gtid: str
    server_id: int
    end: BinlogPosition
    commit_us: int
    steps: TransactionSteps
    size_bytes: int
    thread: int | None = None
    orphans: tuple[tuple[str, str], ...] = ()


class _Expander(Protocol):
    def transactions(
        self, prefix: str, first: int, file: str, tables: tuple[TableMap, ...], parts: RunParts
    ) -> list[SourceTransaction]: ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainRun:
    """Transactions of rows alone that follow one another in one file, still as the server logged them, but checked.

    Attributes:
        prefix: `domain-server-` or `uuid:` of their GTIDs, whose numbers are consecutive; "" when the server has none.
        first: the first one's number.
        start: the byte where the first begins, 0 when not known; `end` the byte after the last.
        commit_us: the latest of their stamps.
        tables: the maps of all rows in them.
    """

    expander: _Expander
    prefix: str
    first: int
    count: int
    start: BinlogPosition
    end: BinlogPosition
    commit_us: int
    tables: tuple[TableMap, ...]
    parts: RunParts

    def transactions(self) -> list[SourceTransaction]:
        """Each of them."""
        return self.expander.transactions(self.prefix, self.first, self.end.file, self.tables, self.parts)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The server says that nothing stands in its binlog after `at`."""

    at: BinlogPosition


@dataclass(frozen=True, slots=True)
class PreparedXa:
    """An XA transaction that waits for its XA COMMIT; who starts anew must read from `start`, before its group."""

    xid: Xid
    start: BinlogPosition
    gtid: str
