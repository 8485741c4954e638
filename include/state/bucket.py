"""One bucket, open at the version that its pointer names: read it, and make the next version.

The embedded store holds the rows, which version they are (`META`), and what the last change overwrote (`UNDO`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal

from include.state.engine import Engine
from include.state.objects import BucketObjects
from include.state.pointer import BucketCounts, BucketPointer
from include.state.rows import pack, unpack

__all__ = ["EMPTY", "META", "UNDO", "Bucket", "Opened", "pack_undo", "unpack_undo"]

_OWN: Final = b"\x00"
META: Final = b"\x00meta"
UNDO: Final = b"\x00undo"
EMPTY: Final = ""
"""The version of a bucket that nothing was ever committed to."""

_MOST_LOGS: Final = 24
_LEAST_BYTES: Final = 8 << 20

Opened = Literal["ready", "undone", "replayed", "restored"]
"""How a bucket came to its version: `ready` (it stood there), `undone`, `replayed` or `restored`."""


def pack_undo(parent: str, old: Mapping[bytes, bytes | None]) -> bytes:
    """What brings a store back to the version `parent`: the rows that it had."""
    return bytes((len(parent),)) + parent.encode() + pack(old.items())


def unpack_undo(kept: bytes) -> tuple[str, Iterator[tuple[bytes, bytes | None]]]:
    """Inverse of `pack_undo`: (parent, its rows)."""
    end = 1 + kept[0]
    return kept[1:end].decode(), unpack(kept[end:])


class Bucket:
    """A bucket that is open. `opening.open_bucket` makes it, and closes it.

    Args:
        engine: stands at the pointer's version.
        objects: the bucket's in the object store.
        pointer: the committed version; None: nothing was ever committed.
        scratch: a folder for the files of a snapshot, which is not there.
        stagger: moves the turn of snapshots, so that not all buckets take them in one batch.
        opened: how it came to its version.
    """

    def __init__(
        self,
        engine: Engine,
        objects: BucketObjects,
        pointer: BucketPointer | None,
        scratch: Path,
        *,
        stagger: int = 0,
        opened: Opened = "ready",
    ) -> None:
        self._engine, self._objects, self._scratch = engine, objects, scratch
        self._pointer = pointer or BucketPointer(EMPTY)
        self._most_logs = _MOST_LOGS - stagger % (_MOST_LOGS // 2)
        self._read: dict[bytes, bytes | None] = {}
        self.opened = opened

    @property
    def counts(self) -> BucketCounts:
        """What the committed version holds."""
        return self._pointer.counts

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, in their order."""
        found = self._engine.get(keys)
        # Who writes a key has read it as a rule: an undo needs what stood there.
        self._read.update(zip(keys, found, strict=True))
        return found

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin so, from `start` on, with their values; what the bucket keeps of itself is left out."""
        found = self._engine.scan(prefix, start)
        return found if prefix else ((key, value) for key, value in found if not key.startswith(_OWN))

    def commit(
        self, rows: Mapping[bytes, bytes | None], *, more: Mapping[str, int] | None = None, due: int | None = None
    ) -> bytes:
        """Make the next version: these keys put or (None) deleted; its pointer.

        1. The rows go to the object store, under a new name; instead of them a snapshot, where one is due (3).
        2. Meanwhile the store takes rows, undo and version in one write.
        3. A snapshot: new files go to the object store, then the list of all.

        The version stands once a transaction has committed the pointer. Until then whoever opens the bucket at the
        version before gets that, whatever step this one came to.

        Args:
            rows: keys begin with another byte than 0.
            more: what is added to the pointer's counts, by name.
            due: of the pointer.
        """
        if any(key.startswith(_OWN) for key in rows):
            raise ValueError("keys that begin with a zero byte are the bucket's own")
        before = self._pointer
        uid = self._objects.uid()
        size = sum(len(key) + len(value or b"") for key, value in rows.items())
        whole = self._snapshot_due(size, before.counts.get("bytes", 0))
        sending = None if whole else _senders().submit(self._objects.put_log, uid, rows)
        counts = dict(before.counts)
        old = self._old(rows)
        for name, count in (*_difference(old, rows).items(), *(more or {}).items()):
            counts[name] = counts.get(name, 0) + count
        own = {META: uid.encode(), UNDO: pack_undo(before.uid, old)}
        self._engine.write([*rows.items(), *own.items()])
        self._read.clear()
        if sending is None:
            self._take_snapshot(uid, before)
            after = BucketPointer(uid, uid, (), counts, due)
        else:
            after = BucketPointer(uid, before.snapshot, (*before.logs, sending.result()), counts, due)
        self._pointer = after
        return after.to_bytes()

    def _old(self, rows: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
        unread = [key for key in rows if key not in self._read]
        if unread:
            self.get(unread)
        return {key: self._read[key] for key in rows}

    def _snapshot_due(self, size: int, held: int) -> bool:
        """Whether a restore would read too much beside the last snapshot, with this version's log."""
        before = self._pointer
        if before.snapshot is None and not before.logs:
            return False
        return len(before.logs) >= self._most_logs or before.log_bytes + size > max(_LEAST_BYTES, held // 2)

    def _take_snapshot(self, uid: str, before: BucketPointer) -> None:
        """Only new files are sent.

        A store at a version goes back to that version's snapshot, on whatever host: it took it, or was made of it. So
        a file of its own that has the name of one of the snapshot's is that file; later ones have later names.
        """
        unchanging = set(self._engine.snapshot(self._scratch))
        there = {} if before.snapshot is None else self._objects.snapshot(before.snapshot)
        self._objects.put_snapshot(uid, self._scratch, {name: there[name] for name in unchanging & there.keys()})


@functools.cache
def _senders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="state")


def _difference(old: Mapping[bytes, bytes | None], new: Mapping[bytes, bytes | None]) -> dict[str, int]:
    rows = size = 0
    for key, value in new.items():
        stood = old[key]
        if stood is not None:
            rows -= 1
            size -= len(key) + len(stood)
        if value is not None:
            rows += 1
            size += len(key) + len(value)
    return {"rows": rows, "bytes": size}
