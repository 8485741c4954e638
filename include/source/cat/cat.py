"""Binlog files → row changes as JSON: what `lyrebird binlog cat` prints.

What cannot be read is refused by name and left out, the rest goes on. An event that may bound transactions takes the
whole of its own with it, as nobody can tell whether that was committed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from include.clock import iso
from include.errors import Terminal
from include.source.binlog.boundary import boundary
from include.source.binlog.compression import payload_events
from include.source.binlog.event_type import KINDS, EventType
from include.source.binlog.events import QueryEvent, parse_query
from include.source.binlog.gtid_event import parse_gtid
from include.source.binlog.reader import Event, EventReader
from include.source.binlog.statement import Statement
from include.source.binlog.step import RowsEvent
from include.source.binlog.text.ddl import effects
from include.source.binlog.transaction import SourceTransaction, TransactionBuilder
from include.source.cat.rows import RowTexts
from include.source.database.table_info import TableInfo

__all__ = ["Cat"]

_GTIDS: Final = frozenset({EventType.GTID, EventType.MYSQL_GTID, EventType.ANONYMOUS_GTID, EventType.TAGGED_GTID})
_QUERIES: Final = frozenset({EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY})
_TEXTS: Final = frozenset({EventType.ANNOTATE, EventType.ROWS_QUERY})
_ROWS: Final = frozenset(kind for kind in EventType if "_ROWS" in kind.name)
_INSIDE: Final = _ROWS | _TEXTS | {EventType.TABLE_MAP}
"""Events that bound nothing: without one of them the rest of its transaction is what it was."""
_MEMORY_BYTES: Final = 64 << 20
_TYPE_AT: Final = 4
_LEFT_OUT: Final = "Its transaction is left out; --all prints what can be read of it."
_CAUSE: Final = ("table", "column", "database")
# Advice to who runs a capture is none to who reads files.
_ELSEWHERE: Final = re.compile(r"capture|--snapshot|`tables`|binlog_format|Nothing was skipped")


@dataclass
class Cat:
    """Fed file by file, event by event. `tell` is told of each thing that could not be read, once for each cause.

    `described`: tables by (database, table). `wanted` chooses tables. `everything`: rows of transactions that were
    rolled back, or never ended, too. `avro`: images as `{"hex": …}` of their Avro record, each new schema before them.
    """

    tell: Callable[[Terminal], None]
    spill_folder: Path
    described: Mapping[tuple[str, str], TableInfo] = field(default_factory=dict)
    wanted: Callable[[str, str], bool] = lambda _database, _table: True
    everything: bool = False
    avro: bool = False

    def __post_init__(self) -> None:
        self.refusals = _Refusals(self.tell)
        self._reader = EventReader()
        self._texts = RowTexts(self.described, self.avro)
        self._builder = TransactionBuilder(self._captures, lambda *_: False, _MEMORY_BYTES, self.spill_folder)
        self._statement = Statement(self._captures)
        self._blind = False
        self._lost = False
        self._gtid = ""
        self._shown: set[str] = set()

    def on_file(self, name: str) -> None:
        """The events that follow are the file's of this name, from its beginning."""
        self._reader = EventReader(name)
        self._forget()

    def on_end(self) -> Terminal | None:
        """The file has ended: the error where it did so inside of a transaction."""
        group_start = self._builder.unfinished
        if group_start is None:
            return None
        self._forget()
        return Terminal(
            "binlog file ends inside of a transaction",
            file=group_start.file,
            pos=group_start.pos,
            fix="Copy the file again, whole; --all prints what there is of it.",
        )

    def on_event(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields what the event adds to the output, in the order of the log."""
        try:
            event = self._reader.parse(data)
        except Terminal as error:
            kind = KINDS[data[_TYPE_AT]] if len(data) > _TYPE_AT else EventType.FORMAT_DESCRIPTION
            self._refuse(error, kind)
            return
        yield from self._on(event)

    def _on(self, event: Event) -> Iterator[dict[str, Any]]:
        if self._lost and not self._found(event):
            return
        try:
            if event.type is EventType.TRANSACTION_PAYLOAD:
                for inner in payload_events(event):
                    yield from self._on(inner)
            else:
                yield from self._each(event) if self.everything else self._committed(event)
        except Terminal as error:
            self._refuse(error, event.type, file=event.file, pos=event.log_pos)
            if event.type is EventType.TABLE_MAP:
                self._pass_over(event)

    def _refuse(self, error: Terminal, kind: EventType | None, **place: Any) -> None:
        if kind is None or kind in _INSIDE or self.everything:
            self.refusals.note(error, **place)
            return
        waits = "Give the file with its XA PREPARE before this one." if "xid" in error.details else ""
        self.refusals.note(error, waits or _LEFT_OUT, **place)
        self._lost = True

    def _pass_over(self, event: Event) -> None:
        """Rows under a map that was refused are not refused once more."""
        self._blind = True
        try:
            (self._statement.on_map if self.everything else self._builder.on_event)(event)
        except Terminal:
            # Not even its name can be read: then its rows are refused, as rows that no map names.
            return
        finally:
            self._blind = False

    def _captures(self, database: str, table: str) -> bool:
        return not self._blind and self.wanted(database, table)

    def _found(self, event: Event) -> bool:
        """Whether a transaction, or a file, begins here: what came before is not understood, and left out."""
        starts = event.type in _GTIDS or event.type is EventType.FORMAT_DESCRIPTION
        if not starts and event.type in _QUERIES:
            try:
                bound = boundary(parse_query(event).text)
            except Terminal:
                return False
            starts = bound is not None and bound.word in ("begin", "xa_start")
        if starts:
            self._forget()
        return starts

    def _forget(self) -> None:
        self._lost, self._gtid = False, ""
        # Prepared XA transactions stay.
        self._builder.on_reconnect()
        self._statement.forget()

    def _committed(self, event: Event) -> Iterator[dict[str, Any]]:
        completed = self._builder.on_event(event)
        if isinstance(completed, SourceTransaction):
            origin = {
                "file": completed.end.file,
                "pos": completed.end.pos,
                "gtid": completed.gtid or None,
                "server_id": completed.server_id,
                "timestamp": iso(completed.commit_us),
            }
            for step in completed.steps:
                if isinstance(step, RowsEvent):
                    yield from self._rows(step, origin)
                else:
                    self._text(step, file=completed.end.file, pos=completed.end.pos)

    def _each(self, event: Event) -> Iterator[dict[str, Any]]:
        kind = event.type
        if kind in _GTIDS:
            self._gtid = parse_gtid(event).text
            self._statement.clear()
        elif kind is EventType.FORMAT_DESCRIPTION:
            self._statement.forget()
        elif kind is EventType.TABLE_MAP:
            self._statement.on_map(event)
        elif kind in _QUERIES:
            query = parse_query(event)
            if boundary(query.text) is None:
                self._text(query, file=event.file, pos=event.log_pos)
        elif kind in _ROWS - _TEXTS:
            rows = self._statement.on_rows(event)
            if rows is not None:
                yield from self._rows(rows, self._place(event))

    def _place(self, event: Event) -> dict[str, Any]:
        return {
            "file": event.file,
            "pos": event.log_pos,
            "gtid": self._gtid or None,
            "server_id": event.server_id,
            "timestamp": iso(event.timestamp * 1_000_000),
        }

    def _text(self, query: QueryEvent, **place: Any) -> None:
        """A statement that may have changed rows as text."""
        try:
            found = effects(query.text, query.database, sql_mode=query.sql_mode, flavour=self._reader.flavour)
            if all(effect.kind != "rows" for effect in found):
                return
            refusal = Terminal(
                "rows were changed by a statement that is logged as text",
                database=query.database,
                statement=query.text.strip()[:120],
            )
        except Terminal as error:
            refusal = error
        self.refusals.note(refusal, "No event holds the rows that it changed.", **place)

    def _rows(self, step: RowsEvent, place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        table, reader = step.table, self._reader
        try:
            pairs = self._texts.of(step, reader.flavour, reader.server_version)
            lost = self._texts.lost(step, reader.flavour, reader.server_version) if step.partial else None
        except Terminal as error:
            self.refusals.note(error, **place)
            return
        if lost is not None:
            self.refusals.note(lost, **place)
        if self.avro:
            schema = self._texts.schema(table, reader.flavour, reader.server_version)
            if schema.fingerprint + schema.full_name not in self._shown:
                self._shown.add(schema.fingerprint + schema.full_name)
                row = schema.envelope_avro("file")["fields"][0]["type"][1]
                avro = {**row, "namespace": schema.namespace("file")}
                yield {"database": table.database, "table": table.table, "schema": avro}
        for before, after in pairs:
            yield {
                **place,
                "database": table.database,
                "table": table.table,
                "op": step.op,
                "before": before,
                "after": after,
            }


class _Refusals:
    """`tell` gets the first of each cause: message, table and column; what names no table is told each time."""

    def __init__(self, tell: Callable[[Terminal], None]) -> None:
        self._tell = tell
        self._counted: Counter[tuple[Any, ...]] = Counter()

    def __bool__(self) -> bool:
        """Whether anything was refused."""
        return bool(self._counted)

    def note(self, error: Terminal, fix: str = "", **place: Any) -> None:
        """Take in a refusal; `place` is what the error itself could not say of where it was."""
        cause = tuple(str(error.details.get(name, "")) for name in _CAUSE)
        if not any(cause):
            cause = (*cause, str(error), str(place))
        key = (error.message, *cause)
        self._counted[key] += 1
        if self._counted[key] == 1:
            advice = fix or ("" if _ELSEWHERE.search(error.fix) else error.fix)
            self._tell(Terminal(error.message, fix=advice, **{**place, **error.details}))

    @property
    def more(self) -> int:
        """Number of refusals that came after the first of their cause."""
        return self._counted.total() - len(self._counted)
