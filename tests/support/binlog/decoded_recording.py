"""Recordings decoded: what the binlog says of each statement's rows, as the images that capture would send."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from include.record.schema import Column, TableSchema
from include.source.binlog.files import BinlogFile
from include.source.binlog.reader import EventReader
from include.source.binlog.step import RowsEvent
from include.source.binlog.table_map import TableMap
from include.source.binlog.transaction import SourceTransaction, TransactionBuilder
from include.source.binlog.unpack import BinlogInput
from include.source.catalog.system_versioning import logged_columns, until_of
from include.source.database.server import Server
from include.source.database.table_info import TableInfo, unlogged
from include.source.rows.columns import column_of, hidden_hashes
from include.source.rows.images import RowImages
from include.source.rows.layout import layout
from include.source.rows.records import of_today
from include.source.rows.shape import TableShape
from include.source.rows.text import row_reader
from tests.support.golden.recording import Description, Recording, Row, Table

__all__ = ["DecodedRecording", "columns_of", "info_of", "selected", "server_of", "shape_of", "transactions"]

Decoder = Callable[..., RowImages]
HASHED = ("hash-keys", "hash-keys-unnamed")
_ENDLESS = (b"2038-01-19 03:14:07.999999", b"2106-02-07 06:28:15.999999")


def columns_of(description: Description) -> tuple[Column, ...]:
    """The table's columns as information_schema tells them."""
    return tuple(
        column_of(
            column["COLUMN_NAME"],
            column["COLUMN_TYPE"],
            column["NUMERIC_PRECISION"],
            column["NUMERIC_SCALE"],
            column["DATETIME_PRECISION"],
            column["CHARACTER_SET_NAME"],
        )
        for column in description.columns
    )


def server_of(name: str) -> Server:
    """The server of that name in tests/support/servers."""
    flavour, _, version = name.partition("-")
    major, minor = map(int, version.split("."))
    return Server("mysql" if flavour == "mysql" else "mariadb", (major, minor, 0), name, gtids=True)


def info_of(table: Table, description: Description) -> TableInfo:
    """The table as capture would describe it; its key is the primary key, () without one."""
    info = TableInfo(*table, description.engine, description.kind == "SYSTEM VERSIONED")
    info.columns = list(columns_of(description))
    for column in description.columns:
        info.note_type(column["COLUMN_NAME"], column["COLUMN_TYPE"])
        info.note_extra(column["COLUMN_NAME"], str(column["EXTRA"]))
        if column["IS_NULLABLE"] == "YES":
            info.nullable.add(column["COLUMN_NAME"])
        if column["GENERATION_EXPRESSION"] in ("ROW START", "ROW END"):
            info.note_period(column["COLUMN_NAME"], column["GENERATION_EXPRESSION"])
    key = (name for index, _, _, name, _ in description.key_parts if index == "PRIMARY")
    texts = {c.name for c in info.columns if c.type.endswith(("text", "blob"))}
    info.hashed = len({index for index, unique, _, name, part in description.key_parts if unique and name in texts})
    info.key = tuple(name for name in key if not info.period or name != info.period[1])
    return info


def shape_of(table: Table, description: Description, server: str) -> TableShape:
    """All columns leave that the server logs; the key is the primary key, else all columns."""
    info = info_of(table, description)
    columns, key = tuple(info.columns), info.key
    without = unlogged(info, server_of(server))
    untold = {c["COLUMN_NAME"] for c in description.columns if _untold(c)}
    leaving = tuple(column for column in columns if column.name not in without | untold)
    names = tuple(column.name for column in leaving)
    key = key if set(key) <= set(names) else ()
    schema = TableSchema(*table, leaving, key or names, frozenset() if key else frozenset(names))
    logged = logged_columns(info)
    return TableShape(logged, schema, until=until_of(info, logged))


def _untold(column: dict[str, Any]) -> bool:
    """Whether SELECT shows another value than the stored one: of a DOUBLE(m, d) d decimals."""
    return re.match(r"double\(\d+,\d+\)", column["COLUMN_TYPE"]) is not None


def converted(shape: TableShape) -> TableShape:
    """The shape whose texts a recording has: all of them as its server converted them."""
    return replace(shape, columns=tuple(replace(column, charset="utf8mb4") for column in shape.columns))


def selected(shape: TableShape, rows: tuple[Row, ...]) -> Counter[bytes]:
    """Rows of a SELECT as images, by way of the snapshot's reader; of a system-versioned table those of today."""
    if shape.until is not None:
        rows = tuple(row for row in rows if row[shape.until] in _ENDLESS)
        shape = replace(shape, until=None)
    read = row_reader(converted(shape))
    kept = [i for i in range(len(shape.columns)) if i not in shape.skipped]
    return Counter(read(tuple(row[i] for i in kept)).row for row in rows)


def transactions(recording: Recording) -> list[SourceTransaction]:
    """All committed transactions of the file."""
    reader = EventReader()
    reader.file = "bin.000001"
    builder = TransactionBuilder(
        lambda database, _table: database != "mysql", lambda _database, _table: False, 1 << 24, Path(gettempdir())
    )
    events = BinlogFile("bin.000001", recording.case, BinlogInput(io.BytesIO(recording.data))).events()
    found = (builder.on_event(reader.parse(data)) for data in events)
    return [each for each in found if isinstance(each, SourceTransaction)]


class DecodedRecording:
    """The net change of each table's rows by one statement."""

    def __init__(self, recording: Recording, decoder: Decoder = RowImages) -> None:
        self._recording = recording
        self._decoder = decoder
        self._made: dict[tuple[TableMap, TableShape], RowImages] = {}

    def change(self, steps: list[RowsEvent], shapes: dict[Table, TableShape]) -> dict[Table, Counter[bytes]]:
        """Images that came (positive) and went (negative), zeros left out."""
        found: dict[Table, Counter[bytes]] = {}
        for step in steps:
            table = (step.table.database, step.table.table)
            net = found.setdefault(table, Counter())
            pairs = self._images(step.table, shapes[table]).rows(step.op, step.body, step.partial)
            for before, after in of_today(pairs) if shapes[table].until is not None else pairs:
                if before is not None:
                    net[before.row] -= 1
                if after is not None:
                    net[after.row] += 1
        return {table: Counter({row: n for row, n in net.items() if n}) for table, net in found.items()}

    def _images(self, table: TableMap, shape: TableShape) -> RowImages:
        if (table, shape) not in self._made:
            known = {column.name for column in shape.columns}
            hashed = hidden_hashes(table, known, len(table.types) - len(shape.columns))
            logged = replace(shape, columns=shape.columns + hashed) if self._recording.case in HASHED else shape
            self._made[table, shape] = self._decoder(layout(table, logged, self._recording.flavour))
        return self._made[table, shape]
