"""A state in files that any release reads, and back: into other buckets, on another store, by a later codec.

```
<folder>/state.json              what it is of, its codec, how many rows
<folder>/<stage>-<bucket>.rows   frames: length (4 bytes, little-endian), then rows as `state.rows` packs them
```
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from include.errors import SettingsError, Terminal
from include.state.engine import OpenEngine
from include.state.opening import StatePlace, open_bucket
from include.state.pointer import BucketPointer
from include.state.rocks import RocksEngine
from include.state.rows import CODEC, pack, unpack
from include.store.object_store import ObjectStore

__all__ = ["BucketId", "Home", "TransferResult", "exported", "exported_versions", "imported"]

BucketId = tuple[str, int]
"""Stage and number."""
Home = Callable[[str, bytes], tuple[int, str]]
"""Of a stage and a key: the bucket that it belongs to, and the name that its row is counted by ('': none)."""

_FRAME_ROWS: Final = 5_000
_COMMIT_ROWS: Final = 50_000
_LENGTH: Final = struct.Struct("<I")
_SAID: Final = "state.json"


@dataclass(frozen=True)
class TransferResult:
    """What went: `digest` is the same for the same rows, however they lie in buckets."""

    rows: int
    bytes: int
    digest: str


class _Sum:
    """A digest of rows in any order: sums of hashes, modulo 2^128."""

    def __init__(self) -> None:
        self.rows = self.bytes = self._sum = 0

    def add(self, stage: str, key: bytes, value: bytes) -> None:
        self.rows += 1
        self.bytes += len(key) + len(value)
        told = b"%s %d %s" % (stage.encode(), len(key), key + value)
        self._sum += int.from_bytes(hashlib.blake2b(told, digest_size=16).digest(), "big")

    def done(self) -> TransferResult:
        return TransferResult(self.rows, self.bytes, f"{self._sum % (1 << 128):032x}")


def exported(
    place: StatePlace,
    store: ObjectStore,
    pointers: Mapping[BucketId, bytes],
    folder: Path,
    *,
    of: str,
    engine: OpenEngine = RocksEngine.open,
    on_bucket: Callable[[BucketId], None] = lambda _id: None,
) -> TransferResult:
    """Write all rows of these versions to a folder, which must be empty or not there.

    Args:
        place: where the buckets are; nothing there is changed but the caches of stores.
        store: has their objects.
        pointers: the committed versions.
        folder: gets the files.
        of: what the state is of, for who imports it.
        engine: opens stores.
        on_bucket: hears of each bucket that is done.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError("the folder is not empty", got=str(folder), fix="Name one that is not there yet.")
    folder.mkdir(parents=True, exist_ok=True)
    total = _Sum()
    for (stage, bucket), pointer in sorted(pointers.items()):
        with (
            open_bucket(place, store, stage, bucket, pointer, engine=engine) as opened,
            (folder / f"{stage}-{bucket:04}.rows").open("wb") as file,
        ):
            rows = iter(opened.scan(b""))
            while some := list(itertools.islice(rows, _FRAME_ROWS)):
                for key, value in some:
                    total.add(stage, key, value)
                frame = pack(some)
                file.write(_LENGTH.pack(len(frame)) + frame)
        on_bucket((stage, bucket))
    done = total.done()
    said = {"of": of, "codec": CODEC, "rows": done.rows, "bytes": done.bytes, "digest": done.digest}
    said["versions"] = {
        f"{stage}/{bucket}": BucketPointer.from_bytes(each).uid for (stage, bucket), each in pointers.items()
    }
    # Last: a folder without it is half an export.
    (folder / _SAID).write_bytes(orjson.dumps(said))
    return done


def imported(
    place: StatePlace,
    store: ObjectStore,
    folder: Path,
    home: Home,
    *,
    of: str,
    engine: OpenEngine = RocksEngine.open,
    on_rows: Callable[[int], None] = lambda _rows: None,
) -> tuple[dict[BucketId, bytes], TransferResult]:
    """Make new versions of buckets of what was exported: their pointers, which the caller commits, and what they hold.

    Objects go to the place's own prefix, beside those that are there: nothing that is committed is changed.

    Args:
        place: where the new buckets are.
        store: gets their objects.
        folder: that holds the export.
        home: gives each row its bucket, and the name that it is counted by.
        of: what the state is of, as the export was told.
        engine: opens stores.
        on_rows: hears how many rows are read, now and then.

    Raises:
        SettingsError: the folder holds no export, or that of another state.
        Terminal: it is damaged, or its rows are not all there.
        Transient: the object store does not answer, or the host has no room.
    """
    said = _said(folder, of)
    pointers: dict[BucketId, bytes] = {}
    total = _Sum()
    waiting: dict[BucketId, dict[bytes, bytes | None]] = {}
    counts: dict[BucketId, Counter[str]] = {}

    def commit(bucket_id: BucketId) -> None:
        with open_bucket(place, store, *bucket_id, pointers.get(bucket_id), engine=engine) as opened:
            pointers[bucket_id] = opened.commit(waiting.pop(bucket_id), more=counts.pop(bucket_id))

    for stage, key, value in _rows(folder):
        total.add(stage, key, value)
        bucket, name = home(stage, key)
        into = stage, bucket
        waiting.setdefault(into, {})[key] = value
        counted = counts.setdefault(into, Counter())
        if name:
            counted[name] += 1
        if len(waiting[into]) >= _COMMIT_ROWS:
            commit(into)
        if total.rows % _FRAME_ROWS == 0:
            on_rows(total.rows)
    for bucket_id in sorted(waiting):
        commit(bucket_id)
    done = total.done()
    if (done.rows, done.digest) != (said["rows"], said["digest"]):
        raise Terminal("the export does not hold what it says", folder=str(folder), says=said, holds=done.rows)
    return pointers, done


def exported_versions(folder: Path, of: str) -> dict[BucketId, str]:
    """The versions of the buckets that an export was made of; raises as `imported`."""
    parts = ((*text.rpartition("/"), uid) for text, uid in _said(folder, of)["versions"].items())
    return {(stage, int(bucket)): uid for stage, _, bucket, uid in parts}


def _said(folder: Path, of: str) -> dict[str, Any]:
    file = folder / _SAID
    if not file.is_file():
        raise SettingsError("the folder holds no whole export of a state", got=str(folder))
    said: dict[str, Any] = orjson.loads(file.read_bytes())
    if said["codec"] != CODEC:
        raise Terminal("the export is of a codec that this release does not know", got=said["codec"], allowed=CODEC)
    if said["of"] != of:
        raise SettingsError("the export is of another state", got=said["of"], wanted=of, folder=str(folder))
    return said


def _rows(folder: Path) -> Iterator[tuple[str, bytes, bytes]]:
    for file in sorted(folder.glob("*.rows")):
        stage = file.stem.rpartition("-")[0]
        for key, value in _unframed(file):
            if value is None:
                raise Terminal("an export holds a deleted row", file=str(file))
            yield stage, key, value


def _unframed(file: Path) -> Iterable[tuple[bytes, bytes | None]]:
    with file.open("rb") as opened:
        while head := opened.read(_LENGTH.size):
            if len(head) < _LENGTH.size:
                raise Terminal("a file of an export is cut short", file=str(file))
            yield from unpack(opened.read(_LENGTH.unpack(head)[0]))
