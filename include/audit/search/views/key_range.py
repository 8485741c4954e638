"""Ranges of document ids, half-open, ordered by their UTF-8 bytes (as keyword fields and Python's texts are)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DocIdRange", "KeySlice"]


@dataclass(frozen=True, slots=True)
class DocIdRange:
    """`low` <= key < `high`; None is without end on that side."""

    low: str | None = None
    high: str | None = None

    def __contains__(self, key: str) -> bool:
        return (self.low is None or key >= self.low) and (self.high is None or key < self.high)

    def of(self, keys: Sequence[str]) -> Sequence[str]:
        """Those of the sorted `keys` that are in it."""
        first = 0 if self.low is None else bisect_left(keys, self.low)
        last = len(keys) if self.high is None else bisect_left(keys, self.high)
        return keys[first:last]


@dataclass(frozen=True, slots=True)
class KeySlice:
    """Ranks first <= i < last of sorted expected keys, and the range that these keys tile.

    Its range goes up to the next slice's first key, and is open at both ends of the list, so that tiles leave no
    gap where an unexpected key could hide.
    """

    first: int
    last: int
    range: DocIdRange

    @classmethod
    def all_of(cls, size: int) -> KeySlice:
        """The whole of so many keys."""
        return cls(0, size, DocIdRange())

    @property
    def size(self) -> int:
        """How many keys are expected in it."""
        return self.last - self.first

    def marks(self, parts: int) -> list[int]:
        """Ranks at which to cut it into at most `parts` of nearly equal size: both ends and what lies between."""
        parts = max(1, min(parts, self.size))
        return [self.first + self.size * n // parts for n in range(parts + 1)]

    def split(self, marks: Sequence[int], keys: Sequence[str]) -> list[KeySlice]:
        """The slices between `marks`, which together are exactly this one; `keys` are those of the inner marks."""
        bounds = [self.range.low, *keys, self.range.high]
        return [KeySlice(marks[n], marks[n + 1], DocIdRange(bounds[n], bounds[n + 1])) for n in range(len(marks) - 1)]
