"""A store whose user dies at one of its writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo

__all__ = ["Crash", "DyingStore"]


class Crash(Exception):
    """The process is gone."""


class DyingStore:
    """A store whose user dies behind, or in front of, its n-th write."""

    def __init__(self, store: MemoryStore, after: int, *, before: bool = False) -> None:
        self._store, self._left, self._before = store, after, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        found = self._died(lambda: self._store.put(key, body, metadata=metadata))
        assert isinstance(found, ObjectInfo)
        return found

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_absent(key, body, metadata=metadata))

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_match(key, body, etag, metadata=metadata))

    def _died(self, write: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._before:
            raise Crash
        answer = write()
        if self._left == 0:
            raise Crash
        return answer
