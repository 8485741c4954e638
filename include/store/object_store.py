"""The port of an object store. `store.s3` and `store.memory` both pass `tests/contract/test_store.py`.

Exactly-once protocols rest on the conditional writes: of any number of writers at most one succeeds, and the
others are told so. A refusal is a value (None), as it is the normal way to learn of another writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from include.errors import Terminal

__all__ = ["PART_BYTES", "NotImplementedByStore", "ObjectInfo", "ObjectStore", "StoredObject"]

PART_BYTES: Final = 5 << 20
"""Least size of a part of an upload; the last one may be smaller."""


class NotImplementedByStore(Terminal):
    """The store has no such call, or does not know one of its conditions (HTTP 501): asking again gives the same."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as the store names it; `etag` is opaque and differs when the content does.

    `metadata` (lower-case names, ASCII values) is None where it was not asked for: in listings. `modified_us` is when
    it was written, by the store's clock (microseconds since 1970 UTC); None where the store did not tell.
    """

    key: str
    size_bytes: int
    etag: str
    metadata: Mapping[str, str] | None = None
    modified_us: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object with its content."""

    info: ObjectInfo
    body: bytes = field(repr=False)


class ObjectStore(Protocol):
    """One bucket. Every call may block.

    Raises `Transient` when the store does not answer, `BackPressure` when it asks to slow down, `Terminal` when it
    refuses access, has no such bucket or does not know the call (`NotImplementedByStore`). After `Transient` or
    `BackPressure` from a conditional write its outcome is unknown: read the object and compare before writing again.
    """

    def put(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """Write, whatever is there."""

    def put_if_absent(self, key: str, body: bytes, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo | None:
        """Write unless an object of that key is there; None when one is."""

    def put_if_match(
        self, key: str, body: bytes, etag: str, *, metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo | None:
        """Replace the object that has this etag; None when it has another, or there is none."""

    def upload(
        self,
        key: str,
        parts: Iterable[bytes],
        *,
        if_absent: bool = False,
        if_match: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo | None:
        """Write in parts (each but the last at least `PART_BYTES`); the conditions are those of the puts.

        Nothing is visible before the last step; what was sent is removed when the upload fails or is refused.
        """

    def get(self, key: str) -> StoredObject | None:
        """The object, or None."""

    def head(self, key: str) -> ObjectInfo | None:
        """The object without its content, or None."""

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose key starts with `prefix` and sorts after `start_after`, by key (bytes of UTF-8)."""

    def delete(self, key: str) -> None:
        """Remove it; harmless when there is none."""
