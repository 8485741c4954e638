"""Stores that must not carry a protocol which rests on conditional writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from include.store.memory import MemoryStore
from include.store.object_store import NotImplementedByStore, ObjectInfo

__all__ = ["IgnoresConditions", "KnowsNoConditions", "Races"]

# Others look meanwhile, as on a network.
_BETWEEN_S = 0.002


class IgnoresConditions(MemoryStore):
    """Writes whatever is there, as one that does not know the header."""

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        return self.put(key, body, metadata=metadata)

    def put_if_match(
        self, key: str, body: bytes, _etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        return self.put(key, body, metadata=metadata)

    def close(self) -> None:
        """Nothing is open."""


class KnowsNoConditions(MemoryStore):
    """Answers a call with a condition by 501; `but` are calls that it knows all the same."""

    def __init__(self, *but: str) -> None:
        super().__init__()
        self._but = but

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        self._know("put_if_absent", key)
        return super().put_if_absent(key, body, metadata=metadata)

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        self._know("put_if_match", key)
        return super().put_if_match(key, body, etag, metadata=metadata)

    def upload(
        self,
        key: str,
        parts: Iterable[bytes],
        *,
        if_absent: bool = False,
        if_match: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo | None:
        if if_absent:
            self._know("upload_if_absent", key)
        body = b"".join(parts)
        if if_absent:
            return super().put_if_absent(key, body, metadata=metadata)
        return self.put(key, body, metadata=metadata)

    def _know(self, call: str, key: str) -> None:
        if call not in self._but:
            raise NotImplementedByStore("the object store does not know this call", system="s3", key=key)

    def close(self) -> None:
        """Nothing is open."""


class Races(MemoryStore):
    """Looks first and writes then, so that each of two who come at once finds the place free. Alone it obeys."""

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        if self.head(key) is not None:
            return None
        time.sleep(_BETWEEN_S)
        return self.put(key, body, metadata=metadata)

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        found = self.head(key)
        if found is None or found.etag != etag:
            return None
        time.sleep(_BETWEEN_S)
        return self.put(key, body, metadata=metadata)

    def close(self) -> None:
        """Nothing is open."""
