"""Rows events → rows as Avro bytes: walks the images of an event, by functions made for each pattern (`generate`).

https://mariadb.com/kb/en/rows_event_v1v2-rows_compressed_event_v1/. An image holds the columns that its event's bitmap
names; an after image that lacks some is completed from the before image. What cannot be completed, a value that does
not parse and a row that does not end where its event ends are refused by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from include.errors import Terminal
from include.source.binlog.events import RowOp
from include.source.malformed import Malformed, told
from include.source.rows.avro import NULL, sized
from include.source.rows.generate import RowFunction, make
from include.source.rows.json.binary import json_text
from include.source.rows.json.diff import apply_diffs
from include.source.rows.layout import Layout
from include.source.rows.shape import EncodedImage

__all__ = ["Cells", "Pair", "RowImages"]


Pair = tuple[EncodedImage | None, EncodedImage | None]
"""(before, after): None where the operation has no such side."""
Cells = tuple[Sequence[bytes | None], Sequence[tuple[str, str]]]
"""An image as (the piece of each column, None of one that is not told; invalid dates as in `TableShape.image`)."""

_MOST_PATTERNS: Final = 4096
_Cells = tuple[list[bytes | None], tuple[tuple[str, str], ...]]


class RowImages:
    """Decodes the rows of one layout. Not for use from several threads."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.shape = layout.shape
        self._width = len(layout.fields)
        self._size = (self._width + 7) // 8
        self._every = (1 << self._width) - 1
        self._made: dict[int, RowFunction] = {}
        self._cells: dict[tuple[int, int, frozenset[int]], RowFunction] = {}
        self.lost: set[str] = set()
        self._json = tuple(i for i, field in enumerate(layout.fields) if field.kind == "json")

    def rows(self, op: RowOp, body: bytes, partial: bool = False) -> list[Pair]:
        """(before, after) of each row of an event's body, from its width on; raises `Terminal`. `partial`: event 39."""
        try:
            return self._rows(op, body, partial)
        except (IndexError, OverflowError, ValueError, struct.error) as error:
            raise self._refusal(op, body, partial, error) from None

    def _rows(self, op: RowOp, body: bytes, partial: bool) -> list[Pair]:
        at, bitmaps = self._start(op, body)
        if not partial and all(bits == self._every for bits in bitmaps):
            return self._full(op, body, at)
        return [(self._whole(before), self._whole(after)) for before, after in self._walk(op, body, partial)]

    def lacking(self, op: RowOp, body: bytes) -> bool:
        """Whether the event's images leave out columns; False of a body that cannot be read either."""
        try:
            return any(bits != self._every for bits in self._start(op, body)[1])
        except (IndexError, OverflowError, ValueError):
            return False

    def cells(self, op: RowOp, body: bytes, partial: bool = False) -> list[tuple[Cells | None, Cells | None]]:
        """As `rows`, and also of images that lack columns: their pieces, after ones completed from before.

        No masks are applied. Changes of a JSON document that no image holds leave its column out, named in `lost`.
        """
        try:
            return list(self._walk(op, body, partial, lost=True))
        except (IndexError, OverflowError, ValueError, struct.error) as error:
            raise self._refusal(op, body, partial, error) from None

    def _walk(
        self, op: RowOp, body: bytes, partial: bool, lost: bool = False
    ) -> Iterator[tuple[_Cells | None, _Cells | None]]:
        offset, bitmaps = self._start(op, body)
        if not any(bitmaps):
            # A row takes no byte then, so that their number is not told.
            raise Malformed("images of no column at all")
        documents = frozenset(self._json) if partial else frozenset()
        while offset < len(body):
            offset, before = self._some(body, offset, bitmaps[0], diffs=documents)
            if op != "u":
                yield (None, before) if op == "c" else (before, None)
                continue
            if partial:
                offset, after = self._partial(body, offset, bitmaps[1], before, lost)
                before = self._shown(before)
            else:
                offset, after = self._some(body, offset, bitmaps[1])
            yield before, self._completed(after, before, bitmaps[1])
        self._at_end(offset, body)

    def _full(self, op: RowOp, body: bytes, at: int) -> list[Pair]:
        """All columns in every image: the way of nearly all events."""
        made, size, every, end = self._made, self._size, self._every, len(body)
        texts = self.shape.texts if self.shape.dates else None
        images: list[EncodedImage] = []
        # Through tuple's own constructor, as there is one for each row.
        append, new = images.append, tuple.__new__
        while at < end:
            nulls = int.from_bytes(body[at : at + size], "little") & every
            function = made.get(nulls)
            if function is None:
                function = self._make(nulls)
            at, row, key, by, bad = function(body, at + size)
            if texts:
                row += texts(bad) if bad else NULL
            append(new(EncodedImage, (row, key, by)))
        self._at_end(at, body)
        if op == "c":
            return [(None, image) for image in images]
        if op == "d":
            return [(image, None) for image in images]
        if len(images) % 2:
            raise Malformed("an update without an after image")
        return list(zip(images[::2], images[1::2], strict=True))

    def _make(self, nulls: int) -> RowFunction:
        if len(self._made) >= _MOST_PATTERNS:
            self._made.clear()
        function = make(self.layout, (True,) * self._width, self._bits(nulls))
        self._made[nulls] = function
        return function

    def _bits(self, number: int) -> tuple[bool, ...]:
        return tuple(bool(number >> i & 1) for i in range(self._width))

    def _some(self, body: bytes, at: int, present: int, diffs: frozenset[int] = frozenset()) -> tuple[int, _Cells]:
        """The pieces of an image that holds the `present` columns; those in `diffs` as the bytes that stand there."""
        nulls, at = self._nulls(body, at, present)
        at, pieces, bad = self._function(present, nulls, diffs)(body, at)
        return at, (pieces, tuple(bad))

    def _function(self, present: int, nulls: int, diffs: frozenset[int] = frozenset()) -> RowFunction:
        function = self._cells.get((present, nulls, diffs))
        if function is None:
            if len(self._cells) >= _MOST_PATTERNS:
                self._cells.clear()
            function = make(self.layout, self._bits(present), self._bits(nulls), cells=True, raw=diffs)
            self._cells[present, nulls, diffs] = function
        return function

    def _nulls(self, body: bytes, at: int, present: int) -> tuple[int, int]:
        """The null bits of an image that holds the `present` columns, spread over all, and where its values begin."""
        size = (present.bit_count() + 7) // 8
        if at + size > len(body):
            raise IndexError
        stated = int.from_bytes(body[at : at + size], "little")
        nulls, place = 0, 0
        for i in range(self._width):
            if present >> i & 1:
                nulls |= (stated >> place & 1) << i
                place += 1
        return nulls, at + size

    def _shown(self, cells: _Cells) -> _Cells:
        """JSON documents that were kept as they stand, as text."""
        pieces = [
            b"\x02" + sized(json_text(piece)) if i in self._json and piece is not None and piece != NULL else piece
            for i, piece in enumerate(cells[0])
        ]
        return pieces, cells[1]

    def _completed(self, cells: _Cells, before: _Cells, present: int) -> _Cells:
        """An after image with what it lacks from the image before."""
        if present == self._every:
            return cells
        pieces = [
            old if piece is None and not present >> i & 1 else piece
            for i, (piece, old) in enumerate(zip(cells[0], before[0], strict=True))
        ]
        absent = {self.shape.columns[i].name for i in range(self._width) if not present >> i & 1}
        return pieces, (*cells[1], *(each for each in before[1] if each[0] in absent))

    def _whole(self, cells: _Cells | None) -> EncodedImage | None:
        """The row of all columns that leave; refused when one is not told."""
        if cells is None:
            return None
        for i, piece in enumerate(cells[0]):
            if piece is None and i not in self.shape.skipped:
                raise Terminal(
                    "a row image lacks a column",
                    table=self.shape.table,
                    column=self.shape.columns[i].name,
                    fix="Set binlog_row_image = FULL for every session (FULL_NODUP will do), then "
                    "`lyrebird capture resume-table`.",
                )
        return self.shape.image(*cells)

    def _partial(self, body: bytes, at: int, present: int, before: _Cells, lost: bool) -> tuple[int, _Cells]:
        """The after image of event 39: JSON columns may stand as changes of the document before.

        MySQL's `Rows_log_event::unpack_current_row`: options; with bit 0 a bitmap over the table's JSON columns; a
        column marked there is a length of 4 bytes and that many bytes of changes. `before` holds JSON as it stands.
        """
        options, at = _lenenc(body, at)
        if options & ~1:
            raise Malformed("row value options that no server writes")
        marked: frozenset[int] = frozenset()
        if options:
            size = (len(self._json) + 7) // 8
            bits = int.from_bytes(body[at : at + size], "little")
            marked = frozenset(i for n, i in enumerate(self._json) if bits >> n & 1)
            at += size
        at, after = self._some(body, at, present, diffs=marked)
        for i in marked:
            changes, document = after[0][i], before[0][i]
            if changes is None or changes == NULL:
                continue
            if document is None and lost:
                after[0][i] = None
                self.lost.add(self.layout.fields[i].column.name)
                continue
            if document is None or document == NULL:
                raise Malformed(f"{self.layout.fields[i].column.name}: changes of a document that is not there")
            after[0][i] = b"\x02" + sized(apply_diffs(document, changes))
        return at, after

    def _start(self, op: RowOp, body: bytes) -> tuple[int, list[int]]:
        """Where the images begin, and which columns each side holds."""
        width, offset = _lenenc(body, 0)
        if width != self._width:
            raise Malformed(f"{width} columns where the table map has {self._width}")
        bitmaps = []
        for _ in range(2 if op == "u" else 1):
            bitmaps.append(int.from_bytes(body[offset : offset + self._size], "little") & self._every)
            offset += self._size
        if offset > len(body):
            raise IndexError
        return offset, bitmaps

    def _at_end(self, at: int, body: bytes) -> None:
        if at != len(body):
            raise Malformed("the last row does not end where its event ends")

    def _refusal(self, op: RowOp, body: bytes, partial: bool, error: Exception) -> Terminal:
        """Which column it was: the event once more, each column by a function of its own."""
        place = None if partial else self._place(op, body)
        column, cause, more = place or ("", told(error), {})
        return Terminal("a row cannot be read", table=self.shape.table, column=column, cause=cause, **more)

    def _place(self, op: RowOp, body: bytes) -> tuple[str, str, dict[str, Any]] | None:
        try:
            offset, bitmaps = self._start(op, body)
            side = 0
            while offset < len(body) and any(bitmaps):
                present = bitmaps[side % len(bitmaps)]
                nulls, offset = self._nulls(body, offset, present)
                for i in range(self._width):
                    if not present >> i & 1 or nulls >> i & 1:
                        continue
                    column = self.layout.fields[i].column
                    more = {"type": column.type, "byte": offset, "bytes": len(body)}
                    try:
                        offset = self._function(1 << i, 0)(body, offset)[0]
                    except (IndexError, OverflowError, ValueError, struct.error) as error:
                        return column.name, told(error), more
                    if offset > len(body):
                        return column.name, told(IndexError()), more
                side += 1
        except (IndexError, OverflowError, ValueError, struct.error):
            return None
        return None


def _lenenc(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        raise Malformed("a length that is none")
    if at + 1 + size > len(data):
        raise IndexError
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
