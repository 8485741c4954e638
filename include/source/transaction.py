"""Events → whole source transactions. Rows are no facts until their commit, so they wait here, still encoded.

A MariaDB group: GTID, then rows and statements, then XID or QUERY COMMIT/ROLLBACK; a standalone group is GTID and one
statement. Only InnoDB tables are captured, so rows before a ROLLBACK, or after a savepoint that is rolled back to,
never existed. XA is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from include.errors import Terminal
from include.record.position import BinlogPosition
from include.source.binlog import Event, EventType
from include.source.ddl import control_word
from include.source.events import (
    Gtid,
    Query,
    RowOp,
    TableMap,
    parse_gtid,
    parse_query,
    parse_rows_head,
    parse_table_map,
)

__all__ = ["Heartbeat", "Rows", "SourceTransaction", "TransactionBuilder"]

_ROWS = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS)
_QUIET = (EventType.STOP, EventType.ANNOTATE, EventType.CHECKPOINT, EventType.GTID_LIST)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table that one event carries, not yet decoded."""

    table: TableMap
    op: RowOp
    body: bytes


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """A committed transaction; `end` is the byte after it, `commit_us` the server's stamp (whole seconds)."""

    gtid: str
    server_id: int
    end: BinlogPosition
    commit_us: int
    steps: tuple[Rows | Query, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The server says that nothing stands in its binlog after `at`."""

    at: BinlogPosition


@dataclass
class _Open:
    gtid: Gtid
    server_id: int
    steps: list[Rows | Query] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    size: int = 0


class TransactionBuilder:
    """Fed event by event; `captures(database, table)` decides once per table map whose rows are kept."""

    def __init__(self, captures: Callable[[str, str], bool], largest_bytes: int) -> None:
        self._captures = captures
        self._largest = largest_bytes
        self._open: _Open | None = None
        self._maps: dict[int, TableMap | None] = {}

    def on_event(self, event: Event) -> SourceTransaction | Heartbeat | None:
        """What the event completes, if anything; raises `Terminal` for what is not understood."""
        kind = event.type
        if kind is EventType.HEARTBEAT:
            file = event.body.decode("utf-8", "replace")
            return None if self._open else Heartbeat(BinlogPosition(file or event.file, event.log_pos))
        if kind in (EventType.FORMAT_DESCRIPTION, EventType.ROTATE):
            self._maps.clear()
            return None
        if kind in _QUIET:
            return None
        if kind is EventType.GTID:
            self._on_gtid(event)
            return None
        opened = self._open
        if opened is None:
            raise Terminal(
                "an event stands outside of a transaction", type=kind.name, file=event.file, pos=event.log_pos
            )
        opened.size += event.size
        if opened.size > self._largest:
            raise Terminal(
                "a transaction is larger than capture takes",
                gtid=opened.gtid.text,
                allowed=f"{self._largest} bytes",
                fix="Raise `transaction_bytes` of the source, with memory to match.",
            )
        if kind is EventType.TABLE_MAP:
            found = parse_table_map(event)
            self._maps[found.table_id] = found if self._captures(found.database, found.table) else None
            return None
        if kind in _ROWS:
            self._on_rows(event, opened)
            return None
        return self._close(event) if kind is EventType.XID else self._on_query(parse_query(event), event, opened)

    def _on_gtid(self, event: Event) -> None:
        gtid = parse_gtid(event)
        if self._open is not None:
            raise Terminal("a transaction has no end", gtid=self._open.gtid.text, file=event.file, pos=event.log_pos)
        if gtid.xa:
            raise Terminal(
                "XA transactions are not read",
                gtid=gtid.text,
                fix="Use plain transactions on the captured server, or wait for the release that reads them.",
            )
        self._open = _Open(gtid, event.server_id)
        self._maps.clear()

    def _on_rows(self, event: Event, opened: _Open) -> None:
        head = parse_rows_head(event)
        if head.table_id not in self._maps:
            raise Terminal("rows of a table that no map names", table_id=head.table_id, gtid=opened.gtid.text)
        table = self._maps[head.table_id]
        if table is not None:
            opened.steps.append(Rows(table, head.op, head.body))
        if head.end_of_statement:
            self._maps.clear()

    def _on_query(self, query: Query, event: Event, opened: _Open) -> SourceTransaction | None:
        control = control_word(query.text)
        if control is None:
            opened.steps.append(query)
            return self._close(event) if opened.gtid.standalone else None
        word, name = control
        if word == "SAVEPOINT":
            opened.marks[name] = len(opened.steps)
        elif word == "ROLLBACK TO":
            if name not in opened.marks:
                raise Terminal("a rollback to a savepoint that was not set", gtid=opened.gtid.text, savepoint=name)
            del opened.steps[opened.marks[name] :]
        elif word == "ROLLBACK":
            opened.steps.clear()
            return self._close(event)
        elif word == "COMMIT":
            return self._close(event)
        elif word == "XA":
            raise Terminal("XA transactions are not read", gtid=opened.gtid.text)
        return None

    def _close(self, event: Event) -> SourceTransaction:
        opened = self._open
        if opened is None:
            raise Terminal("an end of a transaction without its start", file=event.file, pos=event.log_pos)
        self._open = None
        self._maps.clear()
        return SourceTransaction(
            opened.gtid.text,
            opened.server_id,
            BinlogPosition(event.file, event.log_pos),
            event.timestamp * 1_000_000,
            tuple(opened.steps),
            opened.size,
        )
