"""Keys in the order of their UTF-8 bytes, asked for by rank: also more of them than memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

__all__ = ["ListedKeys", "SortedKeys"]


class SortedKeys(Protocol):
    """Sorted keys, each once. Each call may cost a pass over all of them, so ask for much at once."""

    def __len__(self) -> int: ...

    def at(self, ranks: Sequence[int]) -> list[str]:
        """The keys of these ranks, from 0."""

    def spans(self, bounds: Sequence[tuple[int, int]]) -> list[Sequence[str]]:
        """The keys first <= rank < last of each pair."""


class ListedKeys(SortedKeys):
    """In a list."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @override
    def at(self, ranks: Sequence[int]) -> list[str]:
        return [self._keys[rank] for rank in ranks]

    @override
    def spans(self, bounds: Sequence[tuple[int, int]]) -> list[Sequence[str]]:
        return [self._keys[first:last] for first, last in bounds]
