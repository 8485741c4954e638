"""Stores that must not carry a protocol which rests on conditional writes."""

from __future__ import annotations

import time
from collections.abc import Mapping

from include.store.memory import MemoryStore
from include.store.object_store import ObjectInfo

__all__ = ["IgnoresConditions", "Races"]

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
