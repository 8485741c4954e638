"""Rows of inputs: as records bring them, as the state keeps them, and what they bring to outputs.

Named tuples, as there are several for each record, and classes of another kind take several times as long to make.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from include.errors import Terminal

__all__ = [
    "OutputShare",
    "PlainTouch",
    "Row",
    "Touch",
    "incomplete_join_key",
    "incomplete_key",
    "left_key",
    "left_place",
    "left_prefix",
    "row_input",
    "row_key",
    "row_place",
    "row_prefix",
]

_HEAD: Final = struct.Struct(">QI")
_ROWS: Final = b"r"
_INCOMPLETE: Final = b"i"
_LEFT: Final = b"l"
_GROUP_BYTES: Final = 8
_LENGTH: Final = struct.Struct(">I")

PlainTouch = tuple[bytes, int, int, bytes, int, bytes | None, bool]
"""A `Touch` on its way between workers: its row as the state keeps it."""


class Row(NamedTuple):
    """A row as its topic has it: `body` is the record without wire prefix, written by the schema of this id."""

    version: int
    schema_id: int
    body: bytes

    def to_bytes(self) -> bytes:
        """What the state keeps."""
        return _HEAD.pack(self.version, self.schema_id) + self.body

    @classmethod
    def from_bytes(cls, kept: bytes) -> Self:
        """Inverse of `to_bytes`."""
        version, schema_id = _HEAD.unpack_from(kept)
        return cls(version, schema_id, kept[_HEAD.size :])


class Touch(NamedTuple):
    """What one record of an input does to one join key. Touches sort in the order in which they are applied.

    Args:
        join_key: the join key's values, encoded.
        rank: the record's place among all records of all inputs; a record that moves a row touches two join keys at
            one rank.
        input: slot of the input (`Shape.slots`).
        key: the row's primary key, encoded.
        version: the record's.
        row: the row that stands under the join key from now on; None: it is gone from there.
        again: its outputs are written also where they did not change.
    """

    join_key: bytes
    rank: int
    input: int
    key: bytes
    version: int
    row: Row | None
    again: bool = False

    def plain(self) -> PlainTouch:
        """For another worker."""
        return (*self[:5], None if self.row is None else self.row.to_bytes(), self.again)

    @classmethod
    def of(cls, told: Touch | PlainTouch) -> Touch:
        """Inverse of `plain`; a touch is itself."""
        if isinstance(told, Touch):
            return told
        return cls(*told[:5], None if told[5] is None else Row.from_bytes(told[5]), told[6])


class OutputShare(NamedTuple):
    """What one row brings to outputs.

    Rows of one input and join key with the same `group` compete for one place: the greatest (version, key) is shown.
    `group` holds the input's fields of the output's key, each encoded, `part` its fields of the value, encoded one
    behind the other.
    """

    version: int | None
    key: bytes
    group: tuple[bytes, ...]
    part: bytes


def row_prefix(join_key: bytes, input: int) -> bytes:
    """What the state's keys of all rows of one slot and join key begin with, and no others."""
    return _ROWS + _LENGTH.pack(len(join_key)) + join_key + bytes((input,))


def row_key(join_key: bytes, input: int, key: bytes) -> bytes:
    """The state's key of a row."""
    return row_prefix(join_key, input) + key


def incomplete_key(join_key: bytes) -> bytes:
    """The state's key of the mark that outputs of a join key were held."""
    return _INCOMPLETE + join_key


def incomplete_join_key(kept: bytes) -> bytes | None:
    """The join key of such a mark; None for another key of the state."""
    return kept[1:] if kept[:1] == _INCOMPLETE else None


def left_prefix(join_key: bytes) -> bytes:
    """What the state's keys of all rows begin with that left an incomplete join key; see `left_key`."""
    return _LEFT + _LENGTH.pack(len(join_key)) + join_key


def left_key(join_key: bytes, input: int, key: bytes, group: Iterable[bytes]) -> bytes:
    """The state's key of a row that left a join key which lacks outputs: some that it had a part in may still be out.

    `group`: that of its entry. A row is kept once for each, as other rows of its group have the same outputs' keys.
    """
    digest = hashlib.blake2b(b"".join(_LENGTH.pack(len(each)) + each for each in group), digest_size=_GROUP_BYTES)
    return left_prefix(join_key) + bytes((input,)) + digest.digest() + key


def left_place(kept: bytes) -> tuple[bytes, int, bytes] | None:
    """(join key, slot, primary key) of a key that `left_key` made; None for another key of the state."""
    if kept[:1] != _LEFT:
        return None
    end = 5 + int(_LENGTH.unpack_from(kept, 1)[0])
    return kept[5:end], kept[end], kept[end + 1 + _GROUP_BYTES :]


def row_input(kept: bytes) -> int:
    """The slot of a key of the state that `row_key` made."""
    (length,) = _LENGTH.unpack_from(kept, 1)
    return kept[5 + int(length)]


def row_place(kept: bytes) -> tuple[bytes, int, bytes]:
    """(join key, slot, primary key) of a key of the state."""
    if kept[:1] != _ROWS or len(kept) < 6:
        raise Terminal("the state holds a key that is no row's", key=kept.hex(), fix="See `lyrebird state verify`.")
    end = 5 + _LENGTH.unpack_from(kept, 1)[0]
    return kept[5:end], kept[end], kept[end + 1 :]
