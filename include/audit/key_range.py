"""Ranges of document ids, half-open, ordered by their UTF-8 bytes (as keyword fields and Python's texts are)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KeyRange", "KeySlice"]


@dataclass(frozen=True, slots=True)
class KeyRange:
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
    """`first` <= i < `last` of a sorted list of expected keys, and the range that these keys tile.

    Its range goes up to the next slice's first key, and is open at both ends of the list, so that tiles leave no
    gap where an unexpected key could hide.
    """

    first: int
    last: int
    range: KeyRange

    @classmethod
    def all_of(cls, keys: Sequence[str]) -> KeySlice:
        """The whole list."""
        return cls(0, len(keys), KeyRange())

    @property
    def size(self) -> int:
        """How many keys are expected in it."""
        return self.last - self.first

    def split(self, keys: Sequence[str], parts: int) -> list[KeySlice]:
        """At most `parts` slices of nearly equal size that together are exactly this one."""
        parts = max(1, min(parts, self.size))
        marks = [self.first + self.size * n // parts for n in range(parts + 1)]
        bounds = [self.range.low, *(keys[mark] for mark in marks[1:-1]), self.range.high]
        return [KeySlice(marks[n], marks[n + 1], KeyRange(bounds[n], bounds[n + 1])) for n in range(parts)]
