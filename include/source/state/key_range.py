"""Ranges of a table's rows in its key's order: what the chunks of a snapshot are.

The server alone knows how its collations sort, so bounds are never compared here: a range begins where another one
ended. All ranges of a table share their bounds, the first has none below and the last none above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["WHOLE", "Bound", "KeyRange"]

Bound = tuple[str, ...]
"""The key of a row, one text for each of its columns, as `snapshot.key_order.KeyOrder.bound` selects it."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows with a key greater than `after`, up to and with `upto`; None: from the first, to the last."""

    after: Bound | None = None
    upto: Bound | None = None

    def to_json(self) -> list[Any]:
        """Plain values for the resolved record."""
        return [None if bound is None else list(bound) for bound in (self.after, self.upto)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> KeyRange:
        """Inverse of `to_json`."""
        after, upto = (None if bound is None else tuple(str(part) for part in bound) for bound in value)
        return cls(after, upto)


WHOLE: Final = KeyRange()
