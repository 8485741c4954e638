"""Events → whole source transactions. Rows are no facts until their commit, so they wait here, still encoded.

A group begins with a GTID event, where the server has GTIDs. MariaDB: its events follow up to XID, QUERY COMMIT or
ROLLBACK or XA_PREPARE; or, standalone, one statement. MySQL: QUERY BEGIN or XA START, then the same ends; or a
statement that stands alone. Without GTIDs: as MySQL's. What the log ends in the middle of never comes out.

Rolling back (to a savepoint, or all) cuts the rows of tables that can; those of tables that cannot stay. Statements
stay too: a server logs one inside of a rolled back group only if it took effect. A prepared XA transaction leaves
the group that it was logged in without rows, waits under its name, and comes out in the group of its XA COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from include.errors import Terminal
from include.record.position import BinlogPosition
from include.source.binlog.boundary import TransactionBoundary, boundary
from include.source.binlog.compression import payload_events
from include.source.binlog.event_type import EventType
from include.source.binlog.events import QueryEvent, parse_heartbeat, parse_prepare, parse_query
from include.source.binlog.gtid_event import Xid, parse_gtid
from include.source.binlog.open_group import OpenGroup, SurvivesRollback
from include.source.binlog.plain import plain_groups
from include.source.binlog.reader import Event, EventReader
from include.source.binlog.statement import Statement
from include.source.binlog.step import Heartbeat, LoggedText, PlainRun, PreparedXa, RowsEvent, SourceTransaction

__all__ = ["Heartbeat", "PreparedXa", "RowsEvent", "SourceTransaction", "TransactionBuilder"]

_ANEW: Final = "Read everything anew: `lyrebird capture run --source … --snapshot --anew`."
_CREATED: Final = slice(52, 56)
# A group of more bytes goes event by event: by far the most of its time is that of its rows.
_MOST_AWAITED: Final = 1 << 22


class TransactionBuilder:
    """Fed event by event. After an error it is of no use: start anew from the last whole transaction.

    `captures(database, table)` chooses whose rows are kept, asked once for each new table map;
    `survives_rollback(database, table)` tells engines that keep what is rolled back, asked at rollbacks only. Steps of
    a transaction beyond about `memory_bytes` lie in a file without a name in `spill_folder`. `covered(gtid, end)` tells
    groups whose effect is known to the reader: an XA COMMIT there may lack its beginning.
    """

    def __init__(
        self,
        captures: Callable[[str, str], bool],
        survives_rollback: SurvivesRollback,
        memory_bytes: int,
        spill_folder: Path,
        covered: Callable[[str, BinlogPosition], bool] = lambda _gtid, _end: False,
    ) -> None:
        self._covered = covered
        self._survives = survives_rollback
        self._memory_bytes, self._folder = memory_bytes, spill_folder
        self._open: OpenGroup | None = None
        self._statement = Statement(captures)
        self._plain = plain_groups(self._statement.known, memory_bytes)
        self._prepared: dict[Xid, OpenGroup] = {}
        self._actions = self._table()

    @property
    def prepared(self) -> tuple[PreparedXa, ...]:
        """XA transactions that wait, the oldest first."""
        return tuple(PreparedXa(xid, group.start, group.gtid) for xid, group in self._prepared.items())

    @property
    def unfinished(self) -> BinlogPosition | None:
        """Where the group begins that has not ended; None between groups."""
        return self._open.start if self._open else None

    def on_reconnect(self) -> None:
        """A new connection begins after the last whole transaction: what was open will come again."""
        self._open = None
        self._forget()

    def take(
        self, reader: EventReader, data: bytes | bytearray, at: int, framed: bool
    ) -> tuple[list[PlainRun], int, bool]:
        """Runs of plain transactions right out of raw events, which `reader` and `on_event` then need not see.

        `data` holds events from `at` on, `framed` in packets as a server sends them. Returns the runs, where
        they end in `data`, and whether more bytes may give more; else the next event is for `on_event`.
        """
        if self._plain is None or self._open is not None:
            return [], at, False
        found, at, reader.end, more = self._plain.take(data, at, framed, reader.file, reader.end, reader.checksum)
        return found, at, more and len(data) - at < _MOST_AWAITED

    def on_event(self, event: Event) -> SourceTransaction | Heartbeat | None:
        """What the event completes, if anything; raises `Terminal` for what is not understood."""
        return self._actions[event.type](event)

    def _forget(self) -> None:
        self._statement.forget()
        if self._plain is not None:
            self._plain.forget()

    def _table(self) -> list[Callable[[Event], SourceTransaction | Heartbeat | None]]:
        actions: list[Callable[[Event], SourceTransaction | Heartbeat | None]] = [self._on_rowless] * 256
        for kind in EventType:
            if "_ROWS" in kind.name:
                actions[kind] = self._on_rows
        actions[EventType.TABLE_MAP] = self._on_map
        actions[EventType.ANNOTATE] = actions[EventType.ROWS_QUERY] = self._on_text
        for kind in (EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY):
            actions[kind] = self._on_query
        actions[EventType.XID] = self._on_commit
        actions[EventType.XA_PREPARE] = self._on_prepare
        actions[EventType.TRANSACTION_PAYLOAD] = self._on_payload
        actions[EventType.FORMAT_DESCRIPTION] = self._on_description
        actions[EventType.HEARTBEAT] = actions[EventType.HEARTBEAT_V2] = self._on_heartbeat
        for kind in (EventType.GTID, EventType.MYSQL_GTID, EventType.ANONYMOUS_GTID, EventType.TAGGED_GTID):
            actions[kind] = self._on_gtid
        return actions

    def _on_rowless(self, _event: Event) -> None:
        """STOP, ROTATE, lists of GTIDs and the like say nothing of transactions."""

    def _on_heartbeat(self, event: Event) -> Heartbeat | None:
        return None if self._open else Heartbeat(parse_heartbeat(event))

    def _on_description(self, event: Event) -> None:
        # A server that died inside of a group rolled it back when it came up again and began this file.
        if self._open is not None and not any(event.body[_CREATED]):
            raise self._misplaced("a transaction has no end", event)
        self._open = None
        self._forget()

    def _on_gtid(self, event: Event) -> None:
        if self._open is not None:
            raise self._misplaced("a transaction has no end", event)
        gtid = parse_gtid(event)
        self._open = OpenGroup(gtid, event, self._memory_bytes, self._folder)
        self._statement.text = None

    def _on_map(self, event: Event) -> None:
        self._begun(event)
        self._statement.on_map(event)

    def _on_rows(self, event: Event) -> None:
        opened = self._begun(event)
        rows = self._statement.on_rows(event)
        if rows is not None:
            opened.steps.append(rows)
        if self._statement.orphans:
            opened.orphans |= self._statement.orphans
            self._statement.orphans = {}

    def _on_text(self, event: Event) -> None:
        # Before MySQL's stands a length byte, which says nothing of texts over 255 bytes.
        self._statement.text = LoggedText(event.body if event.type is EventType.ANNOTATE else event.body[1:])

    def _on_commit(self, event: Event) -> SourceTransaction:
        return self._close(self._begun(event), event)

    def _on_prepare(self, event: Event) -> SourceTransaction:
        xid, one_phase = parse_prepare(event)
        opened = self._begun(event)
        return self._close(opened, event) if one_phase else self._prepare(opened, xid, event)

    def _on_payload(self, event: Event) -> SourceTransaction | None:
        whole: SourceTransaction | None = None
        for inner in payload_events(event):
            if whole is not None:
                raise self._misplaced("an event follows the end of its transaction", inner)
            found = self.on_event(inner)
            whole = found if isinstance(found, SourceTransaction) else None
        return whole

    def _on_query(self, event: Event) -> SourceTransaction | None:
        query = parse_query(event)
        try:
            bound = boundary(query.text)
        except Terminal as unknown:
            place = {"file": event.file, "pos": event.log_pos, "database": query.database}
            raise Terminal(unknown.message, fix=unknown.fix, **place, **unknown.details) from None
        opened = self._open
        if opened is None or not opened.begun:
            return self._first(query, bound, opened, event)
        if opened.thread is None:
            opened.thread = query.thread
        if bound is None:
            opened.steps.append(query)
            return None
        word = bound.word
        if word == "commit":
            return self._close(opened, event)
        if word == "rollback":
            self._statement.clear()
            opened.roll_back(self._survives)
            return self._close(opened, event)
        if word == "savepoint":
            opened.set_savepoint(bound.name)
        elif word == "rollback_to":
            opened.roll_back_to(bound.name, self._survives)
        elif word in ("xa_prepare", "xa_commit", "xa_rollback"):
            return self._end_xa(bound, opened, event)
        elif word in ("begin", "xa_start") and len(opened.steps):
            raise self._misplaced("a transaction begins inside of another", event)
        return None

    def _first(
        self, query: QueryEvent, bound: TransactionBoundary | None, opened: OpenGroup | None, event: Event
    ) -> SourceTransaction | None:
        """A statement where no group is, or where one's BEGIN is due."""
        alone = opened is None
        if opened is None:
            opened = OpenGroup(None, event, self._memory_bytes, self._folder)
        opened.thread = query.thread if opened.thread is None else opened.thread
        if bound is None:
            if not opened.no_effect:
                opened.steps.append(query)
            return self._close(opened, event)
        if bound.word in ("begin", "xa_start") and not opened.standalone:
            opened.begun = True
            self._open = opened
            if alone:
                self._statement.clear()
            return None
        if bound.word in ("xa_commit", "xa_rollback"):
            return self._end_xa(bound, opened, event)
        if alone or bound.word not in ("commit", "rollback"):
            raise self._misplaced("a statement bounds a transaction that has not begun", event)
        return self._close(opened, event)

    def _end_xa(self, bound: TransactionBoundary, opened: OpenGroup, event: Event) -> SourceTransaction:
        xid = bound.xid
        assert xid is not None  # noqa: S101 - `boundary` gives XA statements their name
        if bound.word == "xa_prepare":
            return self._prepare(opened, xid, event)
        if opened.begun and xid not in self._prepared:
            # A server that logs XA transactions whole, at their commit.
            if bound.word == "xa_rollback":
                opened.roll_back(self._survives)
            return self._close(opened, event)
        waiting = self._prepared.pop(xid, None)
        if waiting is None:
            if bound.word == "xa_rollback" or self._covered(opened.gtid, BinlogPosition(event.file, event.log_pos)):
                return self._close(opened, event)
            raise Terminal(
                "an XA transaction is committed that was prepared before capture began to read",
                xid=str(xid),
                gtid=opened.gtid,
                file=event.file,
                pos=event.log_pos,
                fix=_ANEW,
            )
        if bound.word == "xa_rollback":
            waiting.roll_back(self._survives)
        opened.steps, opened.orphans = waiting.steps, waiting.orphans
        if waiting.thread is not None:
            opened.thread = waiting.thread
        return self._close(opened, event)

    def _prepare(self, opened: OpenGroup, xid: Xid, event: Event) -> SourceTransaction:
        if xid in self._prepared:
            raise self._misplaced(f"XA transaction {xid} is prepared a second time", event)
        self._statement.end()
        opened.orphans |= self._statement.orphans
        self._prepared[xid] = opened
        self._open = None
        self._statement.clear()
        end = BinlogPosition(event.file, event.log_pos)
        return SourceTransaction(opened.gtid, opened.server_id, end, _commit_us(opened, event), (), 0, opened.thread)

    def _close(self, opened: OpenGroup, event: Event) -> SourceTransaction:
        statement = self._statement
        if statement.open:
            statement.end()
            opened.orphans |= statement.orphans
            statement.clear()
        self._open = None
        return SourceTransaction(
            opened.gtid,
            opened.server_id,
            BinlogPosition(event.file, event.log_pos),
            _commit_us(opened, event),
            opened.steps.finished(),
            opened.steps.size_bytes,
            opened.thread,
            tuple(opened.orphans),
        )

    def _begun(self, event: Event) -> OpenGroup:
        opened = self._open
        if opened is None or not opened.begun:
            raise self._misplaced("an event stands outside of a transaction", event)
        return opened

    def _misplaced(self, what: str, event: Event) -> Terminal:
        return Terminal(
            what,
            type=event.type.name,
            file=event.file,
            pos=event.log_pos,
            gtid=self._open.gtid if self._open else "",
            fix="Start capture again, from the last whole transaction; a binlog file is read from its beginning.",
        )


def _commit_us(opened: OpenGroup, event: Event) -> int:
    return event.timestamp * 1_000_000 if opened.commit_us is None else opened.commit_us
