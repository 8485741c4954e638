"""Rows that a join's state has to hold, by the records of its inputs, and rows that a bucket holds."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from include.errors import InvalidRecord
from include.join.algorithm.row import Row, incomplete_join_key, left_place, row_place
from include.join.homes import home_of
from include.join.rows.reading import InputReader
from include.log.ports import Record
from include.record.version import version_of

__all__ = ["HeldRow", "RecordedRow", "held_rows", "stood"]

_VERSION: Final = struct.Struct(">Q")
_WHEREABOUTS: Final = b"k"


class RecordedRow(NamedTuple):
    """What a record says of its row. `key` None: the record cannot be read; `live`: the row joins something."""

    slot: int
    key: bytes | None
    version: int
    partition: int
    offset: int
    live: bool
    join_key: bytes
    digest: bytes


class HeldRow(NamedTuple):
    """A row of a bucket; `home`: the bucket is that in which it is looked for."""

    stage: str
    slot: int
    key: bytes
    join_key: bytes
    version: int
    digest: bytes
    home: bool


def stood(record: Record, reader: InputReader) -> RecordedRow:
    """Read a record as the join does."""
    coordinates = record.partition, record.offset
    try:
        if record.key is None:
            raise InvalidRecord("record of a keyed input has no key", reason="key")
        version = version_of(record.headers, record.offset, change=reader.change)
        for move in reader.read(record.key, record.value, 0, version):
            if move.row is not None and move.join_key is not None:
                return RecordedRow(
                    reader.number, record.key, version, *coordinates, True, move.join_key, _digest(move.row)
                )
    except InvalidRecord:
        return RecordedRow(reader.number, None, 0, *coordinates, False, b"", b"")
    return RecordedRow(reader.number, record.key, version, *coordinates, False, b"", b"")


def held_rows(stage: str, bucket: int, kept: Iterable[tuple[bytes, bytes]], buckets: int) -> Iterator[HeldRow]:
    """The rows among what a bucket keeps, and (slot -1) marks and what left that lie in another bucket than theirs.

    Of the first stage those that stand somewhere: what is gone is remembered there only for a time.
    """
    home = home_of(buckets)
    for key, value in kept:
        at_home = home(stage, key)[0] == bucket
        if stage == "whereabouts":
            if key[:1] == _WHEREABOUTS and len(value) > _VERSION.size:
                version, join_key = _VERSION.unpack_from(value)[0], value[_VERSION.size :]
                yield HeldRow(stage, key[1], key[2:], join_key, version, b"", at_home)
        elif (of := _beside(key)) is not None:
            if not at_home:
                yield HeldRow(stage, -1, key, of, 0, b"", False)
        else:
            join_key, slot, primary = row_place(key)
            row = Row.from_bytes(value)
            yield HeldRow(stage, slot, primary, join_key, row.version, _digest(row), at_home)


def _beside(key: bytes) -> bytes | None:
    """The join key of what stands beside its rows; None for a row."""
    left = left_place(key)
    return incomplete_join_key(key) if left is None else left[0]


def _digest(row: Row) -> bytes:
    return hashlib.blake2b(row.to_bytes(), digest_size=16).digest()
