"""Stores one bucket in the object store: logs, snapshots, and the files that snapshots share.

```
<prefix>log-<uid>        the rows that made version <uid>
<prefix>snapshot-<uid>   JSON: which objects are the files of version <uid>
<prefix>file-<uid>       one of these files
```
A uid is never used twice, so nothing that a pointer names is ever written over.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from include.errors import Terminal
from include.state.pointer import BucketPointer, Log
from include.state.rows import pack, unpack
from include.store.object_store import PART_BYTES, ObjectStore

__all__ = ["BucketObjects", "Manifest", "SnapshotFile", "new_uid"]

_PART: Final = 4 * PART_BYTES
_THREADS: Final = 4


def new_uid() -> str:
    """A name that nothing else has."""
    return secrets.token_hex(12)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of a snapshot: `uid` names its object."""

    uid: str
    bytes: int


Manifest = Mapping[str, SnapshotFile]
"""File name → where it is stored."""


@dataclass(frozen=True)
class BucketObjects:
    """The objects of one bucket.

    Args:
        store: has them.
        prefix: what all their keys begin with.
        uid: gives names for files.
    """

    store: ObjectStore
    prefix: str
    uid: Callable[[], str] = new_uid

    def put_log(self, uid: str, rows: Mapping[bytes, bytes | None]) -> Log:
        """Keep the rows that made a version."""
        body = pack(rows.items())
        self.store.put(self._key("log", uid), body)
        return Log(uid, len(body))

    def log(self, uid: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The rows that made a version; raises `Terminal` when it is gone or damaged."""
        return unpack(self._body("log", uid))

    def put_snapshot(self, uid: str, folder: Path, there: Manifest) -> None:
        """Keep the files of a version; those that are in `there` by name are stored already."""
        files = sorted(file for file in folder.iterdir() if file.is_file())
        with ThreadPoolExecutor(_THREADS) as threads:
            stored = list(threads.map(lambda file: there.get(file.name) or self._put_file(file), files))
        manifest = {file.name: each for file, each in zip(files, stored, strict=True)}
        said = {name: [each.uid, each.bytes] for name, each in manifest.items()}
        self.store.put(self._key("snapshot", uid), orjson.dumps(said))

    def snapshot(self, uid: str) -> Manifest:
        """The files of a version; raises `Terminal` when it is gone."""
        said = orjson.loads(self._body("snapshot", uid))
        return {name: SnapshotFile(uid, size) for name, (uid, size) in said.items()}

    def fetch(self, manifest: Manifest, folder: Path) -> None:
        """Write these files into a folder, which must be there; raises `Terminal` when one is gone or damaged."""
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(lambda item: self._fetch_file(folder / item[0], item[1]), manifest.items()))

    def named(self, pointer: BucketPointer) -> set[str]:
        """The keys of all objects that a version is made of."""
        keys = {self._key("log", log.uid) for log in pointer.logs}
        if pointer.snapshot is not None:
            keys.add(self._key("snapshot", pointer.snapshot))
            keys |= {self._key("file", each.uid) for each in self.snapshot(pointer.snapshot).values()}
        return keys

    def _put_file(self, file: Path) -> SnapshotFile:
        uid, size = self.uid(), file.stat().st_size
        if size <= _PART:
            self.store.put(self._key("file", uid), file.read_bytes())
        else:
            self.store.upload(self._key("file", uid), _parts(file))
        return SnapshotFile(uid, size)

    def _fetch_file(self, file: Path, stored: SnapshotFile) -> None:
        body = self._body("file", stored.uid)
        if len(body) != stored.bytes:
            raise Terminal(
                "a file of the state has another size in the store than was written",
                key=self._key("file", stored.uid),
                size=len(body),
                written=stored.bytes,
            )
        file.write_bytes(body)

    def _body(self, kind: str, uid: str) -> bytes:
        stored = self.store.get(self._key(kind, uid))
        if stored is None:
            raise Terminal(
                "an object that the committed state is made of is gone",
                key=self._key(kind, uid),
                fix="Bring it back from the bucket's versions, or ask for a rebuild of the state.",
            )
        return stored.body

    def _key(self, kind: str, uid: str) -> str:
        return f"{self.prefix}{kind}-{uid}"


def _parts(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while part := opened.read(_PART):
            yield part
