"""Rows of any table → JSON values, as far as table maps and a given schema tell what they are.

Decoded to the same Avro as capture sends, and shown from it. Columns that an image lacks are left out; an after image
has them from the image before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from include.errors import Terminal
from include.record.gtid import Flavour
from include.record.schema import Column, TableSchema
from include.source.binlog.step import RowsEvent
from include.source.binlog.table_map import TableMap
from include.source.database.server import Server
from include.source.database.table_info import TableInfo, unlogged
from include.source.rows.avro import NULL
from include.source.rows.columns import mapped, unshown
from include.source.rows.decoder import NativeImages, images_of
from include.source.rows.images import Cells, RowImages
from include.source.rows.layout import layout, mismatch
from include.source.rows.render import RowRenderer
from include.source.rows.shape import EncodedImage, TableShape

__all__ = ["RowTexts"]

_MOST_TABLES: Final = 4096
_Value = dict[str, Any] | None
_Made = tuple[RowImages | NativeImages, RowRenderer]


class RowTexts:
    """`described`: tables by (database, table), used where they fit the map, as they know more than it tells.

    `avro`: images as `{"hex": …}` of their record; one that lacks columns has null for them, and names them `absent`.
    """

    def __init__(self, described: Mapping[tuple[str, str], TableInfo], avro: bool = False) -> None:
        self._described = described
        self._avro = avro
        self._made: dict[tuple[TableMap, Flavour, str], _Made | Terminal] = {}

    def lost(self, rows: RowsEvent, flavour: Flavour, version: str) -> Terminal | None:
        """What the rows that were read last did not tell, though it changed; errors as those of `of`."""
        images = self._of(rows.table, flavour, version)[0]
        plain = images.plain if isinstance(images, NativeImages) else images
        if not plain.lost:
            return None
        name = plain.lost.pop()
        plain.lost.clear()
        return Terminal(
            "a JSON document was changed of which no image holds the whole: its column is left out",
            table=plain.shape.table,
            column=name,
        )

    def schema(self, table: TableMap, flavour: Flavour, version: str) -> TableSchema:
        """The schema of what `of` gives with `avro`; errors as those of `of`."""
        return self._of(table, flavour, version)[0].shape.schema

    def of(self, rows: RowsEvent, flavour: Flavour, version: str) -> Iterator[tuple[_Value, _Value]]:
        """(before, after) of each row, by the family and version of the server that wrote them.

        All rows of the event are read before the first comes out. Raises `Terminal` naming the table, and the column
        where it is known, for a table that nothing tells enough of, and for bytes that do not parse.
        """
        images, renderer = self._of(rows.table, flavour, version)
        plain = images.plain if isinstance(images, NativeImages) else images
        if rows.partial or plain.lacking(rows.op, rows.body):
            cells = plain.cells(rows.op, rows.body, rows.partial)
            return ((self._sparse(plain, renderer, a), self._sparse(plain, renderer, b)) for a, b in cells)
        pairs = images.rows(rows.op, rows.body)
        return ((self._full(renderer, before), self._full(renderer, after)) for before, after in pairs)

    def _full(self, renderer: RowRenderer, image: EncodedImage | None) -> _Value:
        if image is None:
            return None
        return {"hex": image.row.hex()} if self._avro else renderer.row(image.row)

    def _sparse(self, images: RowImages, renderer: RowRenderer, cells: Cells | None) -> _Value:
        if cells is None:
            return None
        if not self._avro:
            return renderer.cells(*cells)
        shape, (pieces, invalid) = images.shape, cells
        places = [i for i in range(len(shape.columns)) if i not in shape.skipped]
        row = b"".join(pieces[i] or NULL for i in places) + (shape.texts(invalid) if shape.dates else b"")
        absent = [shape.columns[i].name for i in places if pieces[i] is None]
        return {"hex": row.hex(), "absent": absent} if absent else {"hex": row.hex()}

    def _of(self, table: TableMap, flavour: Flavour, version: str) -> _Made:
        if table.refusal is not None:
            raise table.refusal
        key = (table, flavour, version)
        if key not in self._made:
            if len(self._made) >= _MOST_TABLES:
                self._made.clear()
            try:
                shape = self._shape(table, flavour, version)
                self._made[key] = images_of(layout(table, shape, flavour)), RowRenderer(shape)
            except Terminal as untold:
                self._made[key] = untold
        found = self._made[key]
        if isinstance(found, Terminal):
            raise found
        return found

    def _shape(self, table: TableMap, flavour: Flavour, version: str) -> TableShape:
        name = (table.database, table.table)
        info = self._described.get(name)
        columns, without = self._columns(table, info, flavour), frozenset[str]()
        if info is not None and columns[: len(info.columns)] == tuple(info.columns):
            without = unlogged(info, _server(flavour, version))
        leaving = tuple(column for column in columns if column.name not in without)
        names = tuple(column.name for column in leaving)
        # A key is of no use here; over all columns, as they are, it refuses nothing.
        return TableShape(columns, TableSchema(*name, leaving, names, frozenset(names)))

    def _columns(self, table: TableMap, info: TableInfo | None, flavour: Flavour) -> tuple[Column, ...]:
        if info is None:
            return mapped(table, flavour)
        columns = tuple(info.columns)
        wrong = mismatch(table, columns, flavour)
        if wrong is None:
            return columns
        try:
            return mapped(table, flavour)
        except Terminal as untold:
            with suppress(Terminal):
                columns += unshown(table, len(columns), info.hashed, flavour)
            wrong = mismatch(table, columns, flavour)
            if wrong is None:
                return columns
            raise Terminal(
                "the table map tells too little, and the schema given does not fit it",
                table=f"{table.database}.{table.table}",
                column=wrong[0],
                reason=wrong[1],
                fix="Give the schema that the table had when the rows were written.",
            ) from untold


def _server(flavour: Flavour, version: str) -> Server:
    numbers = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", version)
    return Server(flavour, (int(numbers[1]), int(numbers[2]), int(numbers[3])) if numbers else (0, 0, 0), version, True)
