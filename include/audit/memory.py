"""The view in memory, for tests: one moment of a `MemoryIndex`, as its last refresh left it."""

from __future__ import annotations

from collections.abc import Sequence

from include.audit.key_range import KeyRange
from include.audit.range_count import Seen, Window
from include.index.memory import MemoryIndex
from include.index.port import Found

__all__ = ["MemoryView"]


class MemoryView:
    """See `range_count.IndexView`."""

    def __init__(self, index: MemoryIndex, name: str, topic: str, window: Window) -> None:
        self.requests = 0
        self._index = index
        self._name = name
        self._ids = sorted(i for i, found in index.visible(name).items() if _counts(found, topic, window))

    def counts(self, ranges: Sequence[KeyRange]) -> list[int]:
        """See `range_count.IndexView`."""
        self.requests += 1
        return [len(one.of(self._ids)) for one in ranges]

    def ids(self, ranges: Sequence[KeyRange], most: int) -> list[list[str]]:
        """See `range_count.IndexView`."""
        self.requests += 1
        return [list(one.of(self._ids)[:most]) for one in ranges]

    def now(self, doc_ids: Sequence[str]) -> dict[str, Seen]:
        """See `range_count.IndexView`."""
        self.requests += 1
        return {i: seen(found) for i, found in self._index.get_many(self._name, doc_ids).items()}

    def close(self) -> None:
        """See `range_count.IndexView`."""


def seen(found: Found) -> Seen:
    """A document as the audit sees it."""
    metadata = found.source["metadata"]
    return Seen(metadata["partition"], metadata["offset"], found.version, found.deleted)


def _counts(found: Found, topic: str, window: Window) -> bool:
    metadata = found.source["metadata"]
    below = metadata["offset"] < window.get(metadata["partition"], 0)
    return metadata["topic"] == topic and below and not found.deleted
