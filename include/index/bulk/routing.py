"""Documents whose shard a field of the body chooses: one living copy of each, whatever it was routed by before.

Elasticsearch knows an `_id` once for each shard, so a state with another routing may lie beside the older one, and a
delete, which has no body, does not say where its document is. So after a share's lines are settled:

1. a refresh, so that a search sees every copy that was written before it,
2. all copies of the share's documents are read: the one with the greatest version says what the document is,
3. every other copy that lives becomes a tombstone of that version, under its own routing.

Of two tasks that write copies of one document the one that refreshes last sees both. A crash in between: the share is
done again, its lines are stale, and 1 to 3 find the same.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, Final

import orjson

from include.clock import Clock
from include.errors import Terminal, Transient
from include.index.bulk.request import BulkLine, line_bytes
from include.index.bulk.sender import Delivery
from include.index.feed import Feed
from include.index.metadata import Metadata
from include.index.server.port import IndexedDocument, SearchIndex

__all__ = ["Copies", "routing_of"]

_BULK_BYTES: Final = 1_000_000


def routing_of(body: bytes, field: str) -> str | None:
    """The routing of a document by its body's JSON: the field's text; None (by `_id`) without one."""
    found: Any = orjson.loads(body)
    value = found.get(field) if isinstance(found, dict) else None
    return None if value is None else str(value)


class Copies:
    """Steps 1 to 3 for one index."""

    def __init__(self, index: SearchIndex, name: str, clock: Clock, patience_s: float) -> None:
        self._index = index
        self._name = name
        self._clock = clock
        self._patience_s = patience_s

    def settle(self, feed: Feed, doc_ids: Collection[str]) -> int:
        """Leave one living copy at most of each document of `feed`; gives how many became tombstones.

        May be called again. Raises `Transient`, `BackPressure`, and `Terminal` when the index refuses a tombstone.
        """
        self._index.refresh(self._name)
        by_id: dict[str, list[IndexedDocument]] = {}
        for copy in self._index.copies(self._name, feed.name, sorted(doc_ids)):
            by_id.setdefault(copy.source["metadata"]["doc_id"], []).append(copy)
        metadata = Metadata(feed.origin)
        lines: list[BulkLine] = []
        for doc_id, copies in by_id.items():
            # A copy that died for another one has that one's version.
            newest = max(copies, key=lambda copy: (copy.version, not copy.deleted))
            said = newest.source["metadata"]
            written = metadata.deleted(said["partition"], said["offset"], doc_id, newest.version)
            for copy in copies:
                if copy is not newest and not copy.deleted:
                    data = line_bytes(copy.doc_id, newest.version, b"", None, written, routing=copy.routing, same=True)
                    lines.append(BulkLine(len(lines), data, deleted=True))
        if lines:
            self._send(lines)
        return len(lines)

    def _send(self, lines: list[BulkLine]) -> None:
        send = functools.partial(self._index.bulk, self._name)
        delivered = Delivery(
            send, self._clock, index=self._name, bulk_bytes=_BULK_BYTES, patience_s=self._patience_s
        ).deliver(lines)
        if delivered.waiting:
            raise Transient("index does not take tombstones", system="elasticsearch", reason=delivered.reason)
        if delivered.dead:
            answer = delivered.dead[0][1]
            raise Terminal("index refuses a tombstone", index=self._name, type=answer.type, reason=answer.reason)
