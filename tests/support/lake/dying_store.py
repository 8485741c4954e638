"""A store whose user dies at one of its writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo

__all__ = ["Crash", "DyingStore"]

T = TypeVar("T")


class Crash(Exception):
    """The process is gone."""


class DyingStore:
    """A store whose user dies behind, or in front of, its n-th write."""

    def __init__(self, store: MemoryStore, after: int, *, before: bool = False) -> None:
        self._store, self._left, self._before = store, after, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        return self._died(lambda: self._store.put(key, body, metadata=metadata))

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_absent(key, body, metadata=metadata))

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        return self._died(lambda: self._store.put_if_match(key, body, etag, metadata=metadata))

    def _died(self, write: Callable[[], T]) -> T:
        self._left -= 1
        if self._left == 0 and self._before:
            raise Crash
        answer = write()
        if self._left == 0:
            raise Crash
        return answer
