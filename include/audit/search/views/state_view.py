"""The port of digests. `elasticsearch.states` and `memory` pass `tests/contract/test_state_view.py`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from include.audit.search.bounds import AuditBounds
from include.audit.search.iblt import Histogram
from include.errors import Transient

__all__ = ["MOST_ABOVE", "FarAhead", "IndexState", "StateView", "far_ahead"]

MOST_ABOVE: Final = 200_000
"""So many documents from above the cut are left out one by one, in each part of an audit."""


class FarAhead(Transient):
    """More than `MOST_ABOVE` documents are from above the cut."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """A document as the index holds it. `state` is its stored digest, None for a tombstone or where it lacks one.

    `version` is the one in its metadata; `stored_version` the server's own, which an `_update` raises.
    `written` is the sequence number and the primary term of its last write, where asked for. `generation` is the
    topic's.
    """

    doc_id: str
    version: int
    partition: int
    offset: int
    deleted: bool
    state: int | None
    routing: str | None = None
    stored_version: int = 0
    written: tuple[int, int] | None = field(default=None, compare=False)
    generation: int = field(default=0, compare=False)


def far_ahead(index: str, documents: int) -> FarAhead:
    """The error for so many documents of an index."""
    return FarAhead(
        "the index is far ahead of its progress document",
        system="elasticsearch",
        index=index,
        documents=documents,
        fix="Run the audit again when the application has caught up.",
    )


class StateView(Protocol):
    """One moment of the documents of one topic; `now` alone is of this moment.

    Raises `Transient` for an answer that is not whole: no audit may rest on it.
    """

    @property
    def requests(self) -> int:
        """Requests so far."""

    @property
    def received(self) -> int:
        """Bytes of the answers, as they came over the wire."""

    def narrow(self, bounds: AuditBounds) -> None:
        """Go by these bounds from now on; no request."""

    def unproven(self) -> int:
        """Counts the living documents that the bounds leave to nobody's judgement; one request unless it is sure."""

    def above(self) -> Mapping[int, int]:
        """Counts the documents, tombstones too, that were written from above the bounds, by partition; one request."""

    def histograms(self, bits: int) -> tuple[tuple[Histogram, ...], list[IndexState]]:
        """The living documents' states by bucket in all views; and what was written from above the bounds.

        The latter are documents, tombstones too. What is unproven is in neither. One round trip, unless the latter are
        more than 10,000; raises `FarAhead` for more than `MOST_ABOVE`.
        """

    @property
    def stateless(self) -> Sequence[IndexState]:
        """Living documents without a digest, as of the last `histograms`, which tell nothing of them."""

    def holders(self, states: Collection[int]) -> list[IndexState]:
        """All living documents with one of these states."""

    def in_buckets(self, bits: int, places: Sequence[int]) -> list[IndexState]:
        """All living documents in these buckets of the first view, but for the unproven."""

    def now(self, doc_ids: Collection[str], *, everywhere: bool) -> dict[str, list[IndexState]]:
        """Each document at this moment, tombstones too.

        With `everywhere` all copies under whatever routing, as of a refresh made for it; else the one that belongs
        to the id alone, in realtime.
        """

    def close(self) -> None:
        """Let go of the moment; may be called twice."""
