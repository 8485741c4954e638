"""Rows events → records of their table's topic: decoding and envelopes, in one where they are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from include.record.change import Op
from include.source.binlog.step import RowsEvent
from include.source.rows.avro import long_piece
from include.source.rows.compiled import envelope_of, target_of
from include.source.rows.decoder import NativeImages, images_of
from include.source.rows.encode import Stamp, TableEncoder
from include.source.rows.images import Pair
from include.source.rows.layout import Layout
from include.source.rows.shape import EncodedImage

if TYPE_CHECKING:
    from include.source.native._decoder import Target

__all__ = ["Encoded", "EncodedRecords", "RowRecords", "encoded", "of_today"]

# The end of what has no end: the greatest TIMESTAMP(6) up to MariaDB 11.4, and since 11.5 (of 64 bits).
_ENDLESS: Final = tuple(long_piece((1 << bits) * 1_000_000 - 1)[1:] for bits in (31, 32))

Encoded = tuple[Op, bytes, int, bytes]
"""(op, key, partition, value) of one record; the tombstone that follows a delete is not among them."""
EncodedRecords = list[tuple[bytes, int, bytes]] | list[Encoded]
"""Of several rows; those of a snapshot lack their op."""


class RowRecords:
    """The records of one table map's rows. Not for use from several threads.

    `queries`: whether a statement's text leaves with its rows. `past`: rows of a system-versioned table's past that the
    last event had; they have no records. `target`: where whole runs of its rows go, None where they go one by one.
    """

    def __init__(self, layout: Layout, encoder: TableEncoder, queries: bool = False) -> None:
        self.encoder = encoder
        self._queries = queries
        self.images = images_of(layout)
        self.past = 0
        self._versioned = layout.shape.until is not None
        heads = encoder.key_head, encoder.value_head, encoder.partitions
        self._envelope = None if self._versioned else envelope_of(*heads)
        self.target: Target | None = None
        if self._envelope is not None and not queries and isinstance(self.images, NativeImages):
            self.target = target_of(self.images.decoder, self._envelope, encoder.topic, *encoder.block)

    def of(self, step: RowsEvent, stamp: Stamp, row: int = 0, of_table: int = 1) -> tuple[list[Encoded], int]:
        """The records of an event, and how many rows they are of; raises `Terminal` as `RowImages.rows` does.

        `row` and `of_table` are those of the event's first row, as `TableEncoder.value` has them.
        """
        images = self.images
        query = step.query if self._queries else None
        if self._envelope is not None and isinstance(images, NativeImages):
            if not step.partial:
                parts = self.encoder.parts(stamp, query)
                found = images.decoder.records(step.op, step.body, self._envelope, parts, row, of_table)
                if found is not None:
                    return found
            images = images.plain
        pairs = images.rows(step.op, step.body, step.partial)
        if self._versioned:
            today = of_today(pairs)
            self.past = len(pairs) - len(today)
            pairs = today
        return encoded(pairs, self.encoder, stamp, row, of_table, query), len(pairs)


def encoded(
    pairs: list[Pair], encoder: TableEncoder, stamp: Stamp, row: int, of_table: int, query: str | None
) -> list[Encoded]:
    """The records of images; a row whose key or partition changes is deleted and created.

    Args:
        pairs: (before, after) of each row.
        encoder: of the table.
        stamp: of the source transaction.
        row: number of the first row in the source transaction, from 0.
        of_table: its number among the transaction's rows of the table, from 1.
        query: the statement's text, None where it does not leave.
    """
    records: list[Encoded] = []
    for number, (before, after) in enumerate(pairs):
        sides: tuple[Op, ...] = ("u",)
        if before is None:
            sides = ("c",)
        elif after is None:
            sides = ("d",)
        elif encoder.moved(before, after):
            sides = ("d", "c")
        for op in sides:
            old, new = None if op == "c" else before, None if op == "d" else after
            image = new or old
            assert image is not None  # noqa: S101 - every operation has a side
            value = encoder.value(op, old, new, stamp, row + number, of_table + number, query)
            records.append((op, encoder.key(image), encoder.partition(image), value))
    return records


def of_today(pairs: list[Pair]) -> list[Pair]:
    """The changes of the rows of today, with images as those of any table; see `TableShape.until`.

    A row that goes into the past is deleted; what happens in the past alone is left out.
    """
    found = ((_of_today(before), _of_today(after)) for before, after in pairs)
    return [(before, after) for before, after in found if before is not None or after is not None]


def _of_today(image: EncodedImage | None) -> EncodedImage | None:
    if image is None:
        return None
    # Varints: none is the beginning of another.
    for end in _ENDLESS:
        if image.key.startswith(end):
            return image._replace(key=image.key[len(end) :])
    return None
