"""Definition of a table's shape: the columns that leave of its rows, their Avro record, and its key.

A row reaches the log by two ways, the binlog and a SELECT. Both make a piece of each column (`avro`), and a
`TableShape` puts the pieces together: so the bytes are the same on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from include.errors import Terminal
from include.record.schema import DATES, Column, TableSchema
from include.source.rows.avro import NULL, text_map

__all__ = ["EncodedImage", "Invalid", "TableShape"]


class EncodedImage(NamedTuple):
    """One state of a row: its record, the bare values of its key and of the columns that choose its partition."""

    row: bytes
    key: bytes
    by: bytes | None


Invalid = Iterable[tuple[str, str]]
"""(column, text) of dates that no calendar has."""


@dataclass(frozen=True)
class TableShape:
    """The server's `columns` in ordinal order, and `schema`: those that leave, as the topic's readers see them.

    `by` names the columns that choose the partition, none: the key. `masks` make another piece of a column's piece,
    `date_masks` of the text of a date that no calendar has; never of a key's. `until` is the index of the column by
    which rows of a system-versioned table's past are told from those of today (`period`): its value comes first in an
    image's key, whether it leaves or not.
    """

    columns: tuple[Column, ...]
    schema: TableSchema
    by: tuple[str, ...] = ()
    masks: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict, hash=False)
    date_masks: Mapping[str, Callable[[str], bytes]] = field(default_factory=dict, hash=False)
    until: int | None = None

    @property
    def table(self) -> str:
        """`database.table`."""
        return self.schema.full_name

    @cached_property
    def dates(self) -> bool:
        """Whether the row's record ends with the field of invalid dates."""
        return any(column.type in DATES for column in self.schema.columns)

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Indexes of columns that are not decoded, as they do not leave."""
        return self._absent - self.unsent

    @cached_property
    def unsent(self) -> frozenset[int]:
        """Indexes of columns that are decoded and do not leave all the same."""
        return self._absent & ({self.until} if self.until is not None else set())

    @cached_property
    def _absent(self) -> frozenset[int]:
        names = {column.name for column in self.schema.columns}
        return frozenset(i for i, column in enumerate(self.columns) if column.name not in names)

    @cached_property
    def masked(self) -> Mapping[int, Callable[[bytes], bytes]]:
        """The masks by index of their column."""
        return {i: self.masks[column.name] for i, column in enumerate(self.columns) if column.name in self.masks}

    @cached_property
    def masked_dates(self) -> Mapping[int, Callable[[str], bytes]]:
        """The masks of texts by index of their column."""
        places = self._places
        return {places[name]: mask for name, mask in self.date_masks.items()}

    @cached_property
    def key_parts(self) -> tuple[tuple[int, bool], ...]:
        """(index, whether it is a union in the key) of each key column."""
        place = self._places
        first = () if self.until is None else ((self.until, False),)
        return (*first, *((place[name], name in self.schema.nullable) for name in self.schema.key))

    @cached_property
    def by_parts(self) -> tuple[int, ...]:
        """Indexes of the columns that choose the partition."""
        return tuple(self._places[name] for name in self.by)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    def image(self, pieces: Sequence[bytes | None], invalid: Invalid) -> EncodedImage:
        """The row of these pieces, one for each column; skipped ones are None. Raises `Terminal` for a key of null."""
        key = self.key_of(pieces)
        by = []
        for i in self.by_parts:
            piece = pieces[i] or NULL
            if piece == NULL:
                raise self.no_key(i)
            by.append(piece[1:])
        if self.masked:
            said = {name: text for name, text in invalid if name in self.date_masks}
            pieces = [
                p if p is None or i not in self.masked else self._masked(i, p, said) for i, p in enumerate(pieces)
            ]
        row = b"".join([piece for i, piece in enumerate(pieces) if piece is not None and i not in self.unsent])
        return EncodedImage(row + self.texts(invalid) if self.dates else row, key, b"".join(by) if by else None)

    def key_of(self, pieces: Sequence[bytes | None]) -> bytes:
        """The key of the row of these pieces; raises `Terminal` for one of null."""
        key = []
        for i, union in self.key_parts:
            piece = pieces[i] or NULL
            if piece == NULL and not union:
                raise self.no_key(i)
            key.append(piece if union else piece[1:])
        return b"".join(key)

    def _masked(self, i: int, piece: bytes, said: Mapping[str, str]) -> bytes:
        name = self.columns[i].name
        return self.date_masks[name](said[name]) if name in said else self.masked[i](piece)

    def texts(self, invalid: Invalid) -> bytes:
        """The piece of the field of invalid dates; what a masked column held is not told."""
        found = [(name.encode(), text.encode()) for name, text in invalid if name not in self.masks]
        return b"\x02" + text_map(found) if found else NULL

    def masked_moment(self, index: int, write: Callable[[bytes], tuple[bytes, str | None]]) -> Callable[[bytes], bytes]:
        """The piece that leaves of a column in `masked_dates`; `write` makes its own piece, and a text of no date."""
        mask, of_text = self.masked[index], self.masked_dates[index]

        def masked(data: bytes) -> bytes:
            piece, text = write(data)
            return mask(piece) if text is None else of_text(text)

        return masked

    def no_key(self, index: int) -> Terminal:
        """The error of a row without a value for its key or its partition."""
        return Terminal(
            "a column of the key, or one that chooses the partition, holds no value (null, or a date of no calendar)",
            table=self.table,
            column=self.columns[index].name,
            fix="Mend the row, or leave the table out; then `lyrebird capture resume-table`.",
        )
