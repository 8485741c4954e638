"""The double of `state.rocks`: a dict, with a file for each write. As there, files of two snapshots do not mix."""

from __future__ import annotations

import bisect
import pickle
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from typing_extensions import override

from include.state.engine import BrokenStore, Engine

__all__ = ["MemoryEngine"]

_SUFFIX: Final = ".rows"
_LIST: Final = "list"


class MemoryEngine(Engine):
    """`Engine` for tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[bytes, bytes] = {}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._require_whole()
            for file in self._files():
                self._take(pickle.loads(file.read_bytes()))  # noqa: S301 - our own files
        except (pickle.UnpicklingError, EOFError) as error:
            raise BrokenStore("a file of the store is damaged", folder=str(folder), why=str(error)) from error
        self._keys = sorted(self._rows)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """`OpenEngine`."""
        return cls(folder)

    @override
    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(key) for key in keys]

    @override
    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        rows = []
        for key in self._keys[bisect.bisect_left(self._keys, max(prefix, start)) :]:
            if not key.startswith(prefix):
                break
            rows.append((key, self._rows[key]))
        return iter(rows)

    @override
    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        taken = list(rows)
        new = self._folder / f"{len(self._files()):06d}{_SUFFIX}"
        new.with_suffix(".part").write_bytes(pickle.dumps(taken))
        new.with_suffix(".part").rename(new)
        self._take(taken)
        self._keys = sorted(self._rows)

    @override
    def snapshot(self, folder: Path) -> list[str]:
        folder.mkdir(parents=True)
        for file in self._files():
            shutil.copyfile(file, folder / file.name)
        checksums = {file.name: zlib.crc32(file.read_bytes()) for file in self._files()}
        (folder / _LIST).write_bytes(pickle.dumps(checksums))
        return list(checksums)

    @override
    def close(self) -> None:
        pass

    def _require_whole(self) -> None:
        listed = self._folder / _LIST
        checksums = pickle.loads(listed.read_bytes()) if listed.exists() else {}  # noqa: S301 - our own files
        for name, checksum in checksums.items():
            file = self._folder / name
            if not file.exists() or zlib.crc32(file.read_bytes()) != checksum:
                raise BrokenStore("a file of the store is of another snapshot", file=str(file))

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))

    def _take(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in rows:
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
