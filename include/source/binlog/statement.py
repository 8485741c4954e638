"""The table maps of the statement that is being read, and whose rows are kept.

Maps come first, then rows of all the statement's tables interleave (triggers), so a map is found by its id, never as
"the last one"; a statement's end forgets them. What a map says is parsed once for equal bytes, as each statement sends
it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from include.errors import Terminal
from include.source.binlog.body import BodyReader
from include.source.binlog.events import END_OF_STATEMENT, ROWS, parse_rows_head
from include.source.binlog.reader import Event
from include.source.binlog.step import LoggedText, RowsEvent
from include.source.binlog.table_map import TableMap, parse_table_map, table_name

__all__ = ["Statement"]

_MOST_KNOWN: Final = 8192
# Ids of events that carry no rows and only end their statement.
_DUMMIES: Final = (0xFFFFFF, 0xFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class _Mapped:
    """`table` is None where nobody captures it."""

    name: tuple[str, str]
    table: TableMap | None


class Statement:
    """`captures(database, table)` is asked once for each new map; rows of other tables are passed over by their size.

    A map or the head of rows that is malformed is kept as the table's `refusal`, for whoever wants its rows: where its
    events end is certain all the same. `text` is the statement's own, where the server logs it. `orphans` gathers the
    tables of maps without any rows at their statement's end, until somebody takes them: a cascade that is not logged
    looks so, or a trigger that did nothing. So does MariaDB's second map of a table before its rows: the statement
    changes it by itself, or by a trigger, and may besides by a cascade.
    """

    def __init__(self, captures: Callable[[str, str], bool]) -> None:
        self._captures = captures
        self._known: dict[bytes, _Mapped] = {}
        self._maps: dict[int, _Mapped] = {}
        self._unused: dict[int, _Mapped] = {}
        self._twice: list[_Mapped] = []
        self.text: LoggedText | None = None
        self.orphans: dict[tuple[str, str], None] = {}

    @property
    def known(self) -> dict[bytes, Any]:
        """What follows the id in a map's body → an object whose `table` is the map, None where nobody captures it."""
        return self._known

    @property
    def open(self) -> bool:
        """Whether maps are valid, so that the statement has not ended."""
        return bool(self._maps)

    def forget(self) -> None:
        """A file or connection begins: ids mean other tables, and maps may be another server's."""
        self.clear()
        self._known.clear()

    def clear(self) -> None:
        """A group begins or ends: nothing of the last statement is valid any more, nor are orphans of interest."""
        self._maps.clear()
        self._unused.clear()
        self._twice.clear()
        self.orphans = {}
        self.text = None

    def on_map(self, event: Event) -> None:
        """A TABLE_MAP event."""
        body = event.body
        content = body[6:]
        mapped = self._known.get(content)
        if mapped is None:
            mapped = self._learn(event, content)
        table_id = int.from_bytes(body[:6], "little")
        before = self._maps.get(table_id)
        self._maps[table_id] = mapped
        # REPLACE announces a table twice, the second time after its rows.
        if mapped.table is not None and (before is None or before.name != mapped.name):
            self._unused[table_id] = mapped
        elif table_id in self._unused:
            self._twice.append(mapped)

    def on_rows(self, event: Event) -> RowsEvent | None:
        """A rows event of any kind; None where nobody captures its table."""
        body = event.body
        if len(body) < 8:
            raise BodyReader(event).cut()
        table_id = int.from_bytes(body[:6], "little")
        mapped = self._maps.get(table_id)
        rows = None
        if mapped is None:
            self._dummy(event, table_id)
        elif mapped.table is not None:
            self._unused.pop(table_id, None)
            try:
                head = parse_rows_head(event)
                rows = RowsEvent(mapped.table, head.op, head.body, head.partial, self.text)
            except Terminal as refused:
                rows = RowsEvent(_unreadable(event, mapped.name, refused), ROWS[event.type][0], b"", query=self.text)
        if body[6] & END_OF_STATEMENT:
            self.end()
        return rows

    def end(self) -> None:
        """The statement ends: maps left without rows become orphans."""
        for mapped in (*self._unused.values(), *self._twice):
            self.orphans[mapped.name] = None
        self._maps.clear()
        self._unused.clear()
        self._twice.clear()
        self.text = None

    def _learn(self, event: Event, content: bytes) -> _Mapped:
        name = table_name(event)
        mapped = _Mapped(name, _read(event, name) if self._captures(*name) else None)
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[content] = mapped
        return mapped

    def _dummy(self, event: Event, table_id: int) -> None:
        if table_id in _DUMMIES and event.body[6] & END_OF_STATEMENT:
            head = parse_rows_head(event)
            reader = BodyReader(event, head.body)
            reader.take((reader.lenenc() + 7) // 8 * (2 if head.op == "u" else 1))
            if not reader.left:
                return
        raise Terminal(
            "rows of a table that no map names",
            table_id=table_id,
            type=event.type.name,
            file=event.file,
            pos=event.log_pos,
            fix="Start capture again: it goes on from the last whole transaction, where maps come first.",
        )


def _read(event: Event, name: tuple[str, str]) -> TableMap:
    """The map; one that is malformed says so, and concerns nobody who does not want rows of its table."""
    try:
        return parse_table_map(event)
    except Terminal as refused:
        return _unreadable(event, name, refused)


def _unreadable(event: Event, name: tuple[str, str], refused: Terminal) -> TableMap:
    refusal = Terminal(refused.message, fix=refused.fix, **{**refused.details, "table": ".".join(name)})
    return TableMap(int.from_bytes(event.body[:6], "little"), *name, b"", (), (), refusal=refusal)
