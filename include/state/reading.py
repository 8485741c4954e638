"""The port by which a stage reads a bucket's state, and the same in memory: replays need neither store nor host."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from typing_extensions import override

__all__ = ["BucketRows", "MemoryRows"]


class BucketRows(Protocol):
    """A bucket's state, for reading."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of these keys, in their order."""

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterable[tuple[bytes, bytes]]:
        """All keys that begin so, from `start` on, with their values, in the keys' order."""


class MemoryRows(BucketRows):
    """`BucketRows` that are in memory."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []

    @override
    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._values.get(key) for key in keys]

    @override
    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Not to be gone on with after `take`."""
        for at in range(bisect_left(self._keys, max(prefix, start)), len(self._keys)):
            if not self._keys[at].startswith(prefix):
                return
            yield self._keys[at], self._values[self._keys[at]]

    def take(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Put these, and (None) delete."""
        for key, value in rows.items():
            if value is None:
                if self._values.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            else:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value
