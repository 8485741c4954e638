"""The scrub: finds documents whose body is not the one that their stored digest was made of.

A digest adds up stored states, so a body that was changed by hand below an untouched state stays unseen by it. Every
write gives a document a new sequence number in its shard: what has changed since the last clean audit is read whole,
and its state made anew. Until all of an index was read once, a share of the rest is read beside: `SHARES` audits read
everything. A server's version that is not the document's shows an `_update` that nobody should make.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from include.audit.search.last_audit import LastAudit
from include.index.digest import bucket, state_hash
from include.record.json.body import canonical

__all__ = ["SHARES", "Marks", "ScrubMode", "ScrubResult", "Scrubber", "StoredDocument", "StoredDocuments", "is_altered"]

ScrubMode = Literal["changed", "all", "none"]
"""changed: what has changed since the last clean audit, and a share of the rest. all: every document."""
SHARES: Final = 28
Marks = Mapping[int, int]
"""Shard -> sequence number."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with its body as parsed JSON; `state` and `buckets` as stored."""

    doc_id: str
    body: Any
    version: int
    stored_version: int
    deleted: bool
    state: int | None
    buckets: tuple[int | None, ...] = ()


class StoredDocuments(Protocol):
    """Whole documents of one topic in one index. Raises `Transient` for an answer that is not whole."""

    @property
    def requests(self) -> int:
        """Requests so far."""

    @property
    def received(self) -> int:
        """Bytes of the answers, as they came over the wire."""

    def marks(self) -> Marks:
        """Of each shard the number up to which all is written; asks for a refresh that shows it to searches."""

    def written(self, after: Marks, upto: Marks, share: tuple[int, int] | None = None) -> Iterator[StoredDocument]:
        """Documents with `after` < sequence number <= `upto`; with `share` (n, of) the living of that n-th share."""

    def hidden(self) -> dict[str, int]:
        """Documents by field in which the index left out a value, so that no search finds it."""

    def again(self, doc_ids: Collection[str]) -> Iterator[StoredDocument]:
        """Those that exist, realtime."""


@dataclass(frozen=True, slots=True)
class ScrubResult:
    """`altered` ids are sorted; `share` is what of the rest was read beside the changes (n, of), None for nothing.

    `hidden` is no fault of a document: its field's mapping leaves long or odd values out of searches.
    """

    altered: tuple[str, ...]
    looked_at: int
    share: tuple[int, int] | None
    requests: int
    received_bytes: int
    hidden: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "altered": list(self.altered),
            "looked_at": self.looked_at,
            "share": list(self.share) if self.share else None,
            "requests": self.requests,
            "received_bytes": self.received_bytes,
            "hidden": dict(self.hidden),
        }


def is_altered(document: StoredDocument) -> bool:
    """Whether a document contradicts itself: its state is not that of its body, or the server counted a write more."""
    if document.stored_version != document.version:
        return True
    if document.deleted:
        return document.body is not None
    try:
        state = state_hash(document.doc_id, document.version, canonical(document.body))
    except (TypeError, ValueError, OverflowError):
        # No writer of ours sends what has no canonical form.
        return True
    return document.state != state or document.buckets != tuple(bucket(state, view) for view in range(2))


class Scrubber:
    """Scrubs one topic's documents in one index, from where `last` left it."""

    def __init__(self, last: LastAudit, documents: StoredDocuments) -> None:
        self._last = last
        self._documents = documents
        self._upto: Marks = {}
        self._share: tuple[int, int] | None = None

    def run(self, mode: ScrubMode = "changed") -> ScrubResult:
        """Look at what `mode` says."""
        self._upto = self._documents.marks()
        if mode == "all":
            self._share = (0, 1)
        elif self._last.next_share < SHARES:
            self._share = (self._last.next_share, SHARES)
        looked_at, suspects = 0, set()
        for document in self._chosen():
            looked_at += 1
            if is_altered(document):
                suspects.add(document.doc_id)
        # Written again meanwhile, it is a finding no more.
        there = self._documents.again(suspects) if suspects else ()
        altered = sorted(found.doc_id for found in there if is_altered(found))
        hidden, asked = self._documents.hidden(), self._documents
        return ScrubResult(tuple(altered), looked_at, self._share, asked.requests, asked.received, hidden)

    def done(self) -> dict[str, Any]:
        """What a clean audit keeps. After findings the next scrub looks at the same again, and at more."""
        share = self._last.next_share
        if self._share is not None:
            share = SHARES if self._share[1] == 1 else self._share[0] + 1
        return {"marks": self._upto, "next_share": share}

    def _chosen(self) -> Iterable[StoredDocument]:
        if self._share == (0, 1):
            yield from self._documents.written({}, self._upto)
            return
        if self._last.marks:
            yield from self._documents.written(self._last.marks, self._upto)
        if self._share is not None:
            yield from self._documents.written({}, self._last.marks or self._upto, self._share)
