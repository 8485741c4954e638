"""Masks: what leaves in the place of a column's values, and what the column's schema becomes.

| in the file | value that leaves | column |
|---|---|---|
| `hash` | SHA-256 of salt and text, 64 hex digits: in SQL `SHA2(CONCAT(salt, column), 256)` | varchar |
| `null` | null | as it is |
| `keep_last: n` | every character but the last n is `*`; a text of n characters or fewer stays readable | as it is |

A mask sees the canonical text of a value: what `SELECT` prints, as UTF-8, FLOAT and DOUBLE in their shortest form; of
binary columns the bytes themselves. Null stays null. Characters are code points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from include.record.schema import Column

__all__ = ["MASKS", "HashMask", "KeepLastMask", "Mask", "NullMask", "masked_column", "parse_mask"]

MASKS: Final = ("hash", "null", "keep_last: n")
"""The masks that there are, as a deployment file writes them."""

_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})


@dataclass(frozen=True, slots=True)
class HashMask:
    """SHA-256 of the salt followed by the value, in lower-case hex digits; equal values have equal hashes."""

    salt: str = field(default="", repr=False)

    def of(self, value: bytes | None) -> bytes | None:
        """What leaves instead of `value`."""
        return None if value is None else hashlib.sha256(self.salt.encode() + value).hexdigest().encode()

    def of_text(self, text: str | None) -> str | None:
        """The same of a text: `of` its UTF-8."""
        return None if text is None else hashlib.sha256((self.salt + text).encode()).hexdigest()

    def fits(self, column: Column) -> bool:
        """Any column can be hashed."""
        return True

    def __str__(self) -> str:
        return "hash"


@dataclass(frozen=True, slots=True)
class NullMask:
    """Nothing leaves but the column's name and type."""

    def of(self, value: bytes | None) -> bytes | None:
        """Null, whatever the value."""
        return None

    def of_text(self, text: str | None) -> str | None:
        """Null, whatever the text."""
        return None

    def fits(self, column: Column) -> bool:
        """Any column can be null: no field of a row's schema is required."""
        return True

    def __str__(self) -> str:
        return "null"


@dataclass(frozen=True, slots=True)
class KeepLastMask:
    """The last `count` characters stay, each one before them becomes `*`: the text's length stays too."""

    count: int

    def of(self, value: bytes | None) -> bytes | None:
        """`value` is UTF-8; what is not raises `UnicodeDecodeError`."""
        return None if value is None else self._masked(value.decode()).encode()

    def of_text(self, text: str | None) -> str | None:
        """The same of a text."""
        return None if text is None else self._masked(text)

    def fits(self, column: Column) -> bool:
        """Columns of text alone: elsewhere the result would be no value of the column's type."""
        return column.type in _TEXTS

    def __str__(self) -> str:
        return f"keep_last: {self.count}"

    def _masked(self, text: str) -> str:
        hidden = max(0, len(text) - self.count)
        return "*" * hidden + text[hidden:]


Mask = HashMask | NullMask | KeepLastMask
"""One column's mask. `of` takes the UTF-8 of the canonical text, or a binary column's bytes; `of_text` the text."""


def parse_mask(value: object) -> Mask:
    """A mask as a deployment file writes it, a hash without its salt; raises `ValueError`. YAML's `null` is `None`."""
    if value == "hash":
        return HashMask()
    if value is None or value == "null":
        return NullMask()
    if isinstance(value, Mapping) and set(value) == {"keep_last"}:
        count = value["keep_last"]
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return KeepLastMask(count)
    raise ValueError("not a mask")


def masked_column(column: Column, mask: Mask) -> Column:
    """The column that readers of the topic see. Its charset says nothing of the bytes in the binlog."""
    return Column(column.name, "varchar", charset="ascii") if isinstance(mask, HashMask) else column
