"""Row images of the binlog → rows. One decoder for each table map and the columns that it was found to describe.

https://mariadb.com/kb/en/rows_event_v1v2-rows_compressed_event_v1/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from include.errors import Terminal
from include.record.schema import Column
from include.source.events import RowOp, TableMap, bits
from include.source.values import column_reader

__all__ = ["Image", "RowDecoder"]

Image = dict[str, Any]


class RowDecoder:
    """Decodes the rows of one table as one table map described it; `columns` stand in the map's order."""

    def __init__(self, table: TableMap, columns: tuple[Column, ...]) -> None:
        if len(columns) != len(table.types):
            raise Terminal("a table map has another number of columns", table=f"{table.database}.{table.table}")
        self.table = f"{table.database}.{table.table}"
        self._names = [column.name for column in columns]
        self._reads = [column_reader(table, i, column) for i, column in enumerate(columns)]

    def rows(self, op: RowOp, body: bytes) -> Iterator[tuple[Image | None, Image | None]]:
        """(before, after) of each row; raises `Terminal` when an image is not full or the event's end does not fit."""
        try:
            yield from self._rows(op, body)
        except (IndexError, struct.error) as error:
            raise Terminal("a rows event is cut short", table=self.table) from error

    def _rows(self, op: RowOp, body: bytes) -> Iterator[tuple[Image | None, Image | None]]:
        width, at = _lenenc(body, 0)
        if width != len(self._names):
            raise Terminal("a rows event has another number of columns than its table map", table=self.table)
        size = (width + 7) // 8
        for _ in range(2 if op == "u" else 1):
            if not all(bits(body[at : at + size], width)):
                raise Terminal(
                    "a row image is not full",
                    table=self.table,
                    fix="Set binlog_row_image = FULL for every session; virtual columns are not read.",
                )
            at += size
        while at < len(body):
            first, at = self._image(body, at, size)
            if op == "u":
                second, at = self._image(body, at, size)
                yield first, second
            else:
                yield (None, first) if op == "c" else (first, None)
        if at != len(body):
            raise Terminal("a rows event does not end where its last row does", table=self.table)

    def _image(self, body: bytes, at: int, size: int) -> tuple[Image, int]:
        nulls = int.from_bytes(body[at : at + size], "little")
        if at + size > len(body):
            raise IndexError
        at += size
        image: Image = {}
        for index, read in enumerate(self._reads):
            if nulls >> index & 1:
                image[self._names[index]] = None
            else:
                image[self._names[index]], at = read(body, at)
        if at > len(body):
            raise IndexError
        return image, at


def _lenenc(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise IndexError
    raw = data[at + 1 : at + 1 + size]
    if len(raw) < size:
        raise IndexError
    return int.from_bytes(raw, "little"), at + 1 + size
