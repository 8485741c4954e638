"""An object store in memory: the double of `store.s3`. Safe between threads."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping

from typing_extensions import override

from include.clock import Clock
from include.errors import Terminal
from include.store.object_store import PART_BYTES, ObjectInfo, ObjectStore, StoredObject

__all__ = ["MemoryStore"]


class MemoryStore(ObjectStore):
    """`ObjectStore` over a dict; etags are md5 in quotes, as S3's of plain puts. It tells times by `clock`, if any."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}

    @override
    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        with self._lock:
            return self._write(key, body, metadata)

    @override
    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        with self._lock:
            return None if key in self._objects else self._write(key, body, metadata)

    @override
    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        with self._lock:
            there = self._objects.get(key)
            return self._write(key, body, metadata) if there and there.info.etag == etag else None

    @override
    def upload(
        self,
        key: str,
        parts: Iterable[bytes],
        *,
        if_absent: bool = False,
        if_match: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo | None:
        sent = list(parts)
        if any(len(part) < PART_BYTES for part in sent[:-1]):
            raise Terminal("a part of an upload is too small", key=key, allowed=f"{PART_BYTES} bytes, but for the last")
        body = b"".join(sent)
        if if_absent:
            return self.put_if_absent(key, body, metadata=metadata)
        if if_match is not None:
            return self.put_if_match(key, body, if_match, metadata=metadata)
        return self.put(key, body, metadata=metadata)

    @override
    def get(self, key: str) -> StoredObject | None:
        with self._lock:
            return self._objects.get(key)

    @override
    def head(self, key: str) -> ObjectInfo | None:
        found = self.get(key)
        return found.info if found else None

    @override
    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        with self._lock:
            found = [o.info for k, o in self._objects.items() if k.startswith(prefix) and k > start_after]
        for info in sorted(found, key=lambda each: each.key.encode()):
            yield ObjectInfo(info.key, info.size_bytes, info.etag, None, info.modified_us)

    @override
    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(key, None)

    def _write(self, key: str, body: bytes, metadata: Mapping[str, str] | None) -> ObjectInfo:
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        info = ObjectInfo(key, len(body), etag, dict(metadata or {}), self._clock.now_us() if self._clock else None)
        self._objects[key] = StoredObject(info, bytes(body))
        return info
