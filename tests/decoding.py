"""Recordings decoded: what the binlog says of each statement's rows, as the images that capture would send."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from include.record.schema import Column, TableSchema
from include.source.binlog import EventReader
from include.source.columns import column_of
from include.source.files import BinlogFile, Source
from include.source.images import Images
from include.source.layout import layout
from include.source.server import Server
from include.source.shape import Shape
from include.source.step import Rows
from include.source.table_map import TableMap
from include.source.tables import TableInfo, unlogged
from include.source.text import row_reader
from include.source.transaction import SourceTransaction, TransactionBuilder
from tests.golden.recording import Description, Recording, Row, Table

__all__ = ["Decoded", "columns_of", "selected", "shape_of", "transactions"]

Decoder = Callable[..., Images]


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


def shape_of(table: Table, description: Description, server: str) -> Shape:
    """All columns leave that the server logs; the key is the primary key, else all columns."""
    columns = columns_of(description)
    key = tuple(name for index, _, _, name, _ in description.key_parts if index == "PRIMARY")
    info = TableInfo(*table)
    for column in description.columns:
        info.note_extra(column["COLUMN_NAME"], str(column["EXTRA"]))
    flavour, _, version = server.partition("-")
    major, minor = map(int, version.split("."))
    without = unlogged(
        info, Server("mysql" if flavour == "mysql" else "mariadb", (major, minor, 0), server, gtids=True)
    )
    untold = {c["COLUMN_NAME"] for c in description.columns if _untold(c)}
    leaving = tuple(column for column in columns if column.name not in without | untold)
    names = tuple(column.name for column in leaving)
    key = key if set(key) <= set(names) else ()
    return Shape(columns, TableSchema(*table, leaving, key or names, frozenset() if key else frozenset(names)))


def _untold(column: dict[str, Any]) -> bool:
    """Whether SELECT shows another value than the stored one: of a DOUBLE(m, d) d decimals."""
    return re.match(r"double\(\d+,\d+\)", column["COLUMN_TYPE"]) is not None


def selected(shape: Shape, rows: tuple[Row, ...]) -> Counter[bytes]:
    """Rows of a SELECT as images, by way of the snapshot's reader."""
    read = row_reader(shape)
    kept = [i for i in range(len(shape.columns)) if i not in shape.skipped]
    return Counter(read(tuple(row[i] for i in kept)).row for row in rows)


def transactions(recording: Recording) -> list[SourceTransaction]:
    """All committed transactions of the file."""
    reader = EventReader()
    reader.file = "bin.000001"
    builder = TransactionBuilder(
        lambda database, _table: database != "mysql", lambda _database, _table: False, 1 << 24, Path(gettempdir())
    )
    events = BinlogFile("bin.000001", recording.case, Source(io.BytesIO(recording.data), recording.case)).events()
    found = (builder.on_event(reader.parse(data)) for data in events)
    return [each for each in found if isinstance(each, SourceTransaction)]


class Decoded:
    """The net change of each table's rows by one statement."""

    def __init__(self, recording: Recording, decoder: Decoder = Images) -> None:
        self._recording = recording
        self._decoder = decoder
        self._made: dict[tuple[TableMap, Shape], Images] = {}

    def change(self, steps: list[Rows], shapes: dict[Table, Shape]) -> dict[Table, Counter[bytes]]:
        """Images that came (positive) and went (negative), zeros left out."""
        found: dict[Table, Counter[bytes]] = {}
        for step in steps:
            table = (step.table.database, step.table.table)
            net = found.setdefault(table, Counter())
            for before, after in self._images(step.table, shapes[table]).rows(step.op, step.body, step.partial):
                if before is not None:
                    net[before.row] -= 1
                if after is not None:
                    net[after.row] += 1
        return {table: Counter({row: n for row, n in net.items() if n}) for table, net in found.items()}

    def _images(self, table: TableMap, shape: Shape) -> Images:
        if (table, shape) not in self._made:
            self._made[table, shape] = self._decoder(layout(table, shape, self._recording.flavour))
        return self._made[table, shape]
