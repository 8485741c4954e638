"""Binlog files → row changes as JSON: what `lyrebird binlog cat` prints.

Rows are decoded to the same Avro as capture sends, and printed from it. Tables are described by their maps, or by what
the caller knows of `information_schema` where that fits the map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from include.clock import iso
from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.position import BinlogPosition
from include.record.schema import Column, TableSchema
from include.source.binlog import Event, EventReader
from include.source.columns import column_of, mapped
from include.source.compression import payload_events
from include.source.event_type import EventType
from include.source.gtid_event import parse_gtid
from include.source.images import Images
from include.source.layout import layout, mismatch
from include.source.render import json_row
from include.source.shape import Image, Shape
from include.source.statement import Statement
from include.source.step import Rows
from include.source.table_map import TableMap
from include.source.transaction import SourceTransaction, TransactionBuilder

__all__ = ["Cat", "columns_of"]

_GTIDS: Final = frozenset({EventType.GTID, EventType.MYSQL_GTID, EventType.ANONYMOUS_GTID, EventType.TAGGED_GTID})
_STARTS: Final = _GTIDS | {EventType.FORMAT_DESCRIPTION}
_MEMORY_BYTES: Final = 64 << 20


@dataclass
class Cat:
    """Fed event by event; `refuse` is told of each thing that could not be read, once for each cause.

    `described`: columns by (database, table). `wanted` chooses tables. `everything`: rows of transactions that were
    rolled back, or never ended, too. `avro`: images as `{"hex": …}` of their Avro record, each new schema before them.
    """

    refuse: Callable[[Terminal], None]
    spill_folder: Path
    described: Mapping[tuple[str, str], tuple[Column, ...]] = field(default_factory=dict)
    wanted: Callable[[str, str], bool] = lambda _database, _table: True
    everything: bool = False
    avro: bool = False

    def __post_init__(self) -> None:
        self._reader = EventReader()
        self._images: dict[TableMap, Images | None] = {}
        self._builder = self._new_builder()
        self._statement = Statement(self.wanted)
        self._lost = False
        self._gtid = ""
        self._shown: set[str] = set()

    def on_file(self, name: str) -> None:
        """The events that follow stand in this file."""
        self._reader.file = name

    def on_event(self, data: bytes) -> Iterator[dict[str, Any]]:
        """What the event adds to the output, in the order of the log."""
        try:
            event = self._reader.parse(data)
        except Terminal as error:
            self.refuse(error)
            self._lost = True
            return
        if self._lost:
            # What follows belongs to something that was not understood, up to the next beginning.
            if event.type not in _STARTS:
                return
            self._lost, self._builder, self._statement = False, self._new_builder(), Statement(self.wanted)
        try:
            yield from self._everything(event) if self.everything else self._committed(event)
        except Terminal as error:
            self.refuse(error)
            self._lost = True

    def _new_builder(self) -> TransactionBuilder:
        return TransactionBuilder(self.wanted, lambda _database, _table: False, _MEMORY_BYTES, self.spill_folder)

    def _committed(self, event: Event) -> Iterator[dict[str, Any]]:
        found = self._builder.on_event(event)
        if isinstance(found, SourceTransaction):
            place = {
                "file": found.end.file,
                "pos": found.end.pos,
                "gtid": found.gtid or None,
                "server_id": found.server_id,
                "timestamp": iso(found.commit_us),
            }
            for step in found.steps:
                if isinstance(step, Rows):
                    yield from self._rows(step, place)

    def _everything(self, event: Event) -> Iterator[dict[str, Any]]:
        kind = event.type
        if kind in _GTIDS:
            self._gtid = parse_gtid(event).text
            self._statement.clear()
        elif kind is EventType.FORMAT_DESCRIPTION:
            self._statement.forget()
        elif kind is EventType.TABLE_MAP:
            self._statement.on_map(event)
        elif kind is EventType.TRANSACTION_PAYLOAD:
            for inner in payload_events(event):
                yield from self._everything(inner)
        elif kind.name.endswith("_ROWS") or "_ROWS_" in kind.name:
            rows = self._statement.on_rows(event) if kind is not EventType.ROWS_QUERY else None
            if rows is not None:
                yield from self._rows(rows, self._place(BinlogPosition(event.file, event.log_pos), event))

    def _place(self, at: BinlogPosition, event: Event) -> dict[str, Any]:
        return {
            "file": at.file,
            "pos": at.pos,
            "gtid": self._gtid or None,
            "server_id": event.server_id,
            "timestamp": iso(event.timestamp * 1_000_000),
        }

    def _rows(self, step: Rows, place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if step.table not in self._images:
            self._images[step.table] = self._decoder(step.table)
        images = self._images[step.table]
        if images is None:
            return
        try:
            pairs = images.rows(step.op, step.body, step.partial)
        except Terminal as error:
            self.refuse(Terminal(error.message, fix=error.fix, **error.details, **place))
            return
        if self.avro:
            yield from self._schema(images.shape.schema)
        for before, after in pairs:
            yield {
                **place,
                "database": step.table.database,
                "table": step.table.table,
                "op": step.op,
                "before": self._row(images, before),
                "after": self._row(images, after),
            }

    def _row(self, images: Images, image: Image | None) -> dict[str, Any] | None:
        if image is None:
            return None
        return {"hex": image.row.hex()} if self.avro else json_row(images.shape, image.row)

    def _schema(self, schema: TableSchema) -> Iterator[dict[str, Any]]:
        if schema.fingerprint not in self._shown:
            self._shown.add(schema.fingerprint)
            row = schema.envelope_avro("file")["fields"][0]["type"][1]
            yield {"database": schema.database, "table": schema.table, "schema": row}

    def _decoder(self, table: TableMap) -> Images | None:
        name = (table.database, table.table)
        flavour: Flavour = self._reader.flavour
        columns = self.described.get(name)
        try:
            if columns is None or mismatch(table, columns, flavour) is not None:
                columns = self._by_map(table, columns)
            names = tuple(column.name for column in columns)
            # A key is of no use here; over all columns, as they are, it refuses nothing.
            schema = TableSchema(*name, columns, names, frozenset(names))
            return Images(layout(table, Shape(columns, schema), flavour))
        except Terminal as error:
            self.refuse(error)
            return None

    def _by_map(self, table: TableMap, columns: tuple[Column, ...] | None) -> tuple[Column, ...]:
        try:
            return mapped(table, self._reader.flavour)
        except Terminal as untold:
            wrong = columns and mismatch(table, columns, self._reader.flavour)
            if not wrong:
                raise
            raise Terminal(
                "the table map tells too little, and the schema given does not fit it",
                table=f"{table.database}.{table.table}",
                column=wrong[0],
                reason=wrong[1],
                fix="Give the schema that the table had when the rows were written.",
            ) from untold


def columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[Column, ...]]:
    """Columns by (database, table) from rows of `information_schema.columns`, in any order.

    Raises `Terminal` for a row that lacks what is needed.
    """
    found: dict[tuple[str, str], list[tuple[int, Column]]] = {}
    for number, given in enumerate(rows, 1):
        row = {str(name).upper(): value for name, value in given.items()}
        try:
            column = column_of(
                row["COLUMN_NAME"],
                row["COLUMN_TYPE"],
                row.get("NUMERIC_PRECISION"),
                row.get("NUMERIC_SCALE"),
                row.get("DATETIME_PRECISION"),
                row.get("CHARACTER_SET_NAME"),
            )
            name = (str(row["TABLE_SCHEMA"]), str(row["TABLE_NAME"]))
            found.setdefault(name, []).append((int(row["ORDINAL_POSITION"]), column))
        except (KeyError, TypeError, ValueError) as error:
            raise Terminal(
                "the schema is no list of rows of information_schema.columns",
                row=number,
                reason=repr(error),
                fix="Each row has TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, "
                "NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLUMN_KEY.",
            ) from error
    return {name: tuple(column for _, column in sorted(each, key=lambda pair: pair[0])) for name, each in found.items()}
