"""The indexer's port to a search server. `elasticsearch` and `memory` pass `tests/contract/test_index.py`.

Every call raises `Transient` when the server does not answer or is full, `Terminal` when it refuses; `bulk` alone
never raises for either, as its answer is classified item by item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["BulkAnswer", "IndexInfo", "IndexNote", "IndexedDocument", "ItemAnswer", "SearchIndex"]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index as it is; `uuid` is another one when an index of that name was made anew."""

    name: str
    uuid: str
    mapping: Mapping[str, Any]
    aliases: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document as it is at this moment, also before a refresh, tombstones too. `doc_id` is its `_id`."""

    doc_id: str
    version: int
    source: Mapping[str, Any]
    routing: str | None = None

    @property
    def deleted(self) -> bool:
        """Whether it is a soft-delete tombstone."""
        return bool(self.source.get("metadata", {}).get("deleted"))


@dataclass(frozen=True, slots=True)
class IndexNote:
    """A small document that one writer keeps; `seq_no` and `primary_term` change with every write of it."""

    source: Mapping[str, Any]
    seq_no: int
    primary_term: int


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """What the server said of one item."""

    status: int
    type: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BulkAnswer:
    """What the server said of the request. `status` 0: no answer. `items` None: none that could be read."""

    status: int
    items: Sequence[ItemAnswer] | None = None
    type: str = ""
    reason: str = ""
    retry_after_s: float | None = None


class SearchIndex(Protocol):
    """A server with indexes."""

    def describe(self, name: str) -> IndexInfo | None:
        """The index of that concrete name or alias, or None."""

    def create(self, name: str, body: Mapping[str, Any]) -> IndexInfo:
        """Create it with `settings`, `mappings`, `aliases`; an index of that name is left as it is."""

    def bulk(self, name: str, lines: bytes) -> BulkAnswer:
        """Send action and document lines. External versions: an older or equal one is answered 409."""

    def get(self, name: str, doc_id: str, routing: str | None = None) -> IndexedDocument | None:
        """One document, realtime; a filtered alias does not hide it. `Terminal` without the index.

        `routing`: what it was written with.
        """

    def get_many(self, name: str, doc_ids: Sequence[str]) -> dict[str, IndexedDocument]:
        """Those that exist, realtime, with their metadata only."""

    def refresh(self, name: str) -> None:
        """Make what was written visible to searches; `Transient` when a shard did not."""

    def living_below(self, name: str, topic: str, version: int, most: int) -> list[IndexedDocument]:
        """At most `most` living documents of `topic` with a version below `version`, with their metadata only.

        As of the last refresh, as is `copies`; `Transient` when a shard does not answer.
        """

    def tombstones(
        self, name: str, topic: str, partition: int, below: int, after: tuple[int, str], most: int
    ) -> list[IndexedDocument]:
        """Soft-delete tombstones from a partition of a topic, by offset and `doc_id`, as of the last refresh.

        They come with their metadata only.

        Args:
            name: of the index.
            topic: that they came from.
            partition: its number.
            below: offset that theirs are below.
            after: offset and `metadata.doc_id` that theirs are behind.
            most: at most so many.
        """

    def copies(self, name: str, topic: str, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        """All documents of `topic` with these `metadata.doc_id`, whatever their routing, with their metadata only."""

    def note(self, name: str, note_id: str) -> IndexNote | None:
        """A note, realtime; None when there is none or no such index."""

    def write_note(
        self, name: str, note_id: str, source: Mapping[str, Any], last: IndexNote | None
    ) -> IndexNote | None:
        """Write a note over `last` (None: create it); None when another than `last` is there: nothing is written."""

    def forget_notes(self, name: str, index: str) -> int:
        """Delete the notes whose field `index` is `index`; gives how many. None without index `name`."""

    def close(self) -> None:
        """Give up connections; may be called twice."""
