"""A view of an index that is a set of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from include.audit.search.bounds import AuditBounds
from include.audit.search.views.key_range import DocIdRange
from include.audit.search.views.range_count import IndexView, SeenDocument


class ListedView(IndexView):
    """The port over a set of ids; remembers how often it was asked."""

    requests = 0
    received = 0

    def __init__(self, ids: Sequence[str] | set[str]) -> None:
        self._ids = sorted(ids)

    def narrow(self, bounds: AuditBounds) -> None:
        raise NotImplementedError

    def above(self) -> Mapping[int, int]:
        raise NotImplementedError

    def counts(self, ranges: Sequence[DocIdRange]) -> list[int]:
        self.requests += -(-len(ranges) // 500)
        return [len(one.of(self._ids)) for one in ranges]

    def ids(self, ranges: Sequence[DocIdRange], most: int) -> list[list[str]]:
        self.requests += -(-len(ranges) // 500)
        return [list(one.of(self._ids)[:most]) for one in ranges]

    def now(self, doc_ids: Sequence[str]) -> dict[str, SeenDocument]:
        raise NotImplementedError

    def close(self) -> None:
        pass
