"""The port of audits by counts. `elasticsearch.moment` and `memory` pass `tests/contract/test_range_count.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from include.audit.search.bounds import AuditBounds
from include.audit.search.views.key_range import DocIdRange

__all__ = ["IndexView", "SeenDocument"]


@dataclass(frozen=True, slots=True)
class SeenDocument:
    """A document at this moment: where it came from, and whether it is a tombstone.

    `version` is the one in its metadata, `generation` the topic's.
    """

    partition: int
    offset: int
    version: int
    deleted: bool
    generation: int = field(default=0, compare=False)


class IndexView(Protocol):
    """One moment of an index: all counts and lists are of the same documents; `now` alone is of this moment.

    Only living documents from within the bounds count. Raises `Transient` for an answer that is not whole (a shard
    that failed, a search that ran out of time): no audit may rest on it.
    """

    @property
    def requests(self) -> int:
        """Requests so far."""

    @property
    def received(self) -> int:
        """Bytes of the answers, as they came over the wire."""

    def narrow(self, bounds: AuditBounds) -> None:
        """Count by these bounds from now on; no request."""

    def above(self) -> Mapping[int, int]:
        """Counts the living documents that were written from above the bounds, by partition; one request."""

    def counts(self, ranges: Sequence[DocIdRange]) -> list[int]:
        """Counts the documents in each range. One round trip for 500 of them."""

    def ids(self, ranges: Sequence[DocIdRange], most: int) -> list[list[str]]:
        """Ids in each range, sorted; at most `most` of each (10,000 at the utmost)."""

    def now(self, doc_ids: Sequence[str]) -> dict[str, SeenDocument]:
        """Those that exist at this moment, without the bounds, tombstones too."""

    def close(self) -> None:
        """Let go of the moment; may be called twice."""
