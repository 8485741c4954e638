"""What leaves of a table's rows: which columns, in which Avro record, under which key.

A row reaches the log by two ways, the binlog and a SELECT. Both make a piece of each column (`avro`), and a `Shape`
puts the pieces together: so the bytes are the same on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from include.errors import Terminal
from include.record.schema import DATES, Column, TableSchema
from include.source.avro import NULL, text_map

__all__ = ["Image", "Invalid", "Shape"]


class Image(NamedTuple):
    """One state of a row: its record, the bare values of its key and of the columns that choose its partition."""

    row: bytes
    key: bytes
    by: bytes | None


Invalid = Iterable[tuple[str, str]]
"""(column, text) of dates that no calendar has."""


@dataclass(frozen=True)
class Shape:
    """The server's `columns` in ordinal order, and `schema`: those that leave, as the topic's readers see them.

    `by` names the columns that choose the partition, none: the key. `masks` make another piece of a column's piece;
    never of a key's.
    """

    columns: tuple[Column, ...]
    schema: TableSchema
    by: tuple[str, ...] = ()
    masks: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict, hash=False)

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
        """Indexes of columns that do not leave."""
        names = {column.name for column in self.schema.columns}
        return frozenset(i for i, column in enumerate(self.columns) if column.name not in names)

    @cached_property
    def masked(self) -> Mapping[int, Callable[[bytes], bytes]]:
        """The masks by index of their column."""
        return {i: self.masks[column.name] for i, column in enumerate(self.columns) if column.name in self.masks}

    @cached_property
    def key_parts(self) -> tuple[tuple[int, bool], ...]:
        """(index, whether it is a union in the key) of each key column."""
        place = self._places
        return tuple((place[name], name in self.schema.nullable) for name in self.schema.key)

    @cached_property
    def by_parts(self) -> tuple[int, ...]:
        """Indexes of the columns that choose the partition."""
        return tuple(self._places[name] for name in self.by)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    def image(self, pieces: Sequence[bytes | None], invalid: Invalid) -> Image:
        """The row of these pieces, one for each column; skipped ones are None. Raises `Terminal` for a key of null."""
        key = []
        for i, union in self.key_parts:
            piece = pieces[i] or NULL
            if piece == NULL and not union:
                raise self.no_key(i)
            key.append(piece if union else piece[1:])
        by = []
        for i in self.by_parts:
            piece = pieces[i] or NULL
            if piece == NULL:
                raise self.no_key(i)
            by.append(piece[1:])
        if self.masked:
            pieces = [p if p is None or i not in self.masked else self.masked[i](p) for i, p in enumerate(pieces)]
        row = b"".join([piece for piece in pieces if piece is not None])
        return Image(row + self.texts(invalid) if self.dates else row, b"".join(key), b"".join(by) if by else None)

    def texts(self, invalid: Invalid) -> bytes:
        """The piece of the field of invalid dates; what a masked column held is not told."""
        found = [(name.encode(), text.encode()) for name, text in invalid if name not in self.masks]
        return b"\x02" + text_map(found) if found else NULL

    def no_key(self, index: int) -> Terminal:
        """The error of a row without a value for its key or its partition."""
        return Terminal(
            "a column of the key, or one that chooses the partition, holds no value (null, or a date of no calendar)",
            table=self.table,
            column=self.columns[index].name,
            fix="Mend the row, or leave the table out; then `lyrebird capture resume-table`.",
        )
