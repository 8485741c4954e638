"""The double of `state.rocks`: a dict, with a file for each write."""

from __future__ import annotations

import bisect
import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from include.state.engine import BrokenStore

__all__ = ["MemoryEngine"]

_SUFFIX: Final = ".rows"


class MemoryEngine:
    """`Engine` for tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[bytes, bytes] = {}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for file in self._files():
                self._take(pickle.loads(file.read_bytes()))  # noqa: S301 - our own files
        except (pickle.UnpicklingError, EOFError) as error:
            raise BrokenStore("a file of the store is damaged", folder=str(folder), why=str(error)) from error
        self._keys = sorted(self._rows)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """`OpenEngine`."""
        return cls(folder)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Engine`."""
        return [self._rows.get(key) for key in keys]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Engine`."""
        found = []
        for key in self._keys[bisect.bisect_left(self._keys, prefix) :]:
            if not key.startswith(prefix):
                break
            found.append((key, self._rows[key]))
        return iter(found)

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """See `Engine`."""
        taken = list(rows)
        new = self._folder / f"{len(self._files()):06d}{_SUFFIX}"
        new.with_suffix(".part").write_bytes(pickle.dumps(taken))
        new.with_suffix(".part").rename(new)
        self._take(taken)
        self._keys = sorted(self._rows)

    def snapshot(self, folder: Path) -> list[str]:
        """See `Engine`."""
        folder.mkdir(parents=True)
        for file in self._files():
            shutil.copyfile(file, folder / file.name)
        return [file.name for file in self._files()]

    def close(self) -> None:
        """See `Engine`."""

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))

    def _take(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in rows:
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
