"""The port of the embedded store that holds a bucket; both adapters pass `tests/contract/test_engine.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from include.errors import LyrebirdError

__all__ = ["BrokenStore", "Engine", "OpenEngine"]


class BrokenStore(LyrebirdError):
    """The files of a store cannot be read: they are a cache, so whoever opens it fetches them again."""


class Engine(Protocol):
    """Keys and values in one folder, which nobody else has open. Keys sort by their bytes.

    Raises `Transient` where the host has no room, and `BrokenStore` for files that are damaged.
    """

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, in their order."""

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin so, from `start` on, in order, with their values, as they were at the call."""

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put and (None) delete, all or nothing, and kept when this returns, whatever ends the process."""

    def snapshot(self, folder: Path) -> list[str]:
        """Copy the files to `folder`, which must not be there; a new store opens from them.

        Returns the names of files that never change: one that an earlier snapshot of this folder's store had by the
        same name has the same bytes. Those are linked, not copied.
        """

    def close(self) -> None:
        """Give the folder back, also where a scan has not come to its end; harmless twice."""


class OpenEngine(Protocol):
    """Opens the store in a folder, an empty one where there is none."""

    def __call__(self, folder: Path) -> Engine:
        """`BrokenStore` for files that are damaged."""
