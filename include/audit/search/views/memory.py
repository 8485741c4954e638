"""The views in memory, for tests: one moment of a `MemoryIndex`, as its last refresh left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from typing_extensions import override

from include.audit.search.bounds import AuditBounds
from include.audit.search.iblt import Histogram, add_up
from include.audit.search.scrub import Marks, StoredDocument, StoredDocuments
from include.audit.search.views import state_view
from include.audit.search.views.key_range import DocIdRange
from include.audit.search.views.range_count import IndexView, SeenDocument
from include.audit.search.views.state_view import IndexState, StateView, far_ahead
from include.index.digest import BUCKET_BITS, bucket, of_limbs
from include.index.server.memory import MemoryIndex
from include.index.server.port import IndexedDocument

__all__ = ["MemoryDocuments", "MemoryStates", "MemoryView"]


class MemoryView(IndexView):
    """An `IndexView` of the double in memory."""

    requests: int = 0
    received: int = 0

    def __init__(self, index: MemoryIndex, name: str, topic: str, bounds: AuditBounds) -> None:
        self._index = index
        self._name = name
        self._topic = topic
        self._living = [each for each in _states(index, name, topic) if not each.deleted]
        self.narrow(bounds)

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        self._ids = sorted(each.doc_id for each in self._living if bounds.counted(each))
        judged = (each for each in self._living if bounds.looked_at(each) and not bounds.unproven(each))
        above = (each for each in judged if bounds.above(each))
        self._above = Counter(each.partition for each in above)

    @override
    def above(self) -> Mapping[int, int]:
        self.requests += 1
        return self._above

    @override
    def counts(self, ranges: Sequence[DocIdRange]) -> list[int]:
        self.requests += 1
        return [len(one.of(self._ids)) for one in ranges]

    @override
    def ids(self, ranges: Sequence[DocIdRange], most: int) -> list[list[str]]:
        self.requests += 1
        return [list(one.of(self._ids)[:most]) for one in ranges]

    @override
    def now(self, doc_ids: Sequence[str]) -> dict[str, SeenDocument]:
        self.requests += 1
        found = self._index.get_many(self._name, doc_ids)
        return {
            i: SeenDocument(s.partition, s.offset, s.version, s.deleted, s.generation)
            for i, s in ((i, _state(f)) for i, f in found.items())
        }

    @override
    def close(self) -> None:
        pass


class MemoryStates(StateView):
    """A `StateView` of the double in memory."""

    requests: int = 0
    received: int = 0

    def __init__(self, index: MemoryIndex, name: str, topic: str, bounds: AuditBounds) -> None:
        self._index = index
        self._name = name
        self._topic = topic
        self._states = _states(index, name, topic)
        self.narrow(bounds)

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        states = [state for state in self._states if bounds.looked_at(state)]
        living = [state for state in states if not state.deleted]
        self._living = [state for state in living if not bounds.unproven(state)]
        self._unproven = len(living) - len(self._living)
        above = (state for state in states if bounds.above(state) and not bounds.unproven(state))
        self._above = sorted(above, key=lambda each: each.doc_id)

    @override
    def above(self) -> Mapping[int, int]:
        self.requests += 1
        return Counter(each.partition for each in self._above)

    @override
    def unproven(self) -> int:
        self.requests += 1
        return self._unproven

    @property
    @override
    def stateless(self) -> list[IndexState]:
        return [each for each in self._living if each.state is None]

    @override
    def histograms(self, bits: int) -> tuple[tuple[Histogram, ...], list[IndexState]]:
        self.requests += 1
        if len(self._above) > state_view.MOST_ABOVE:
            raise far_ahead(self._name, len(self._above))
        return add_up((each.state for each in self._living if each.state is not None), bits), self._above

    @override
    def holders(self, states: Collection[int]) -> list[IndexState]:
        self.requests += 1
        return [each for each in self._states if not each.deleted and each.state in states]

    @override
    def in_buckets(self, bits: int, places: Sequence[int]) -> list[IndexState]:
        self.requests += 1
        shift = BUCKET_BITS - bits
        known = [each for each in self._living if each.state is not None]
        return [each for each in known if each.state is not None and bucket(each.state, 0) >> shift in places]

    @override
    def now(self, doc_ids: Collection[str], *, everywhere: bool) -> dict[str, list[IndexState]]:
        self.requests += 1
        if everywhere:
            self._index.refresh(self._name)
            states = _states(self._index, self._name, self._topic)
            return {i: [each for each in states if each.doc_id == i] for i in doc_ids}
        return {i: [_state(found)] for i, found in self._index.get_many(self._name, list(doc_ids)).items()}

    @override
    def close(self) -> None:
        pass


class MemoryDocuments(StoredDocuments):
    """`StoredDocuments` of the double in memory: one shard, whose sequence numbers count the documents' writes."""

    requests: int = 0
    received: int = 0

    def __init__(self, index: MemoryIndex, name: str, topic: str, entity: str) -> None:
        self._index = index
        self._name = name
        self._topic = topic
        self._entity = entity

    @override
    def marks(self) -> Marks:
        self._index.refresh(self._name)
        return {0: max(self._index.sequence_numbers(self._name).values(), default=0)}

    @override
    def written(self, after: Marks, upto: Marks, share: tuple[int, int] | None = None) -> Iterator[StoredDocument]:
        self.requests += 1
        numbers = self._index.sequence_numbers(self._name)
        for name, stored in self._index.visible(self._name).items():
            document = self._document(stored)
            if share is not None:
                n, of = share
                limb = (document.state or 0) & 0xFFFFFFFF
                if document.deleted or not n << 32 <= limb * of < (n + 1) << 32:
                    continue
            if after.get(0, -1) < numbers[name] <= upto[0] and stored.source["metadata"]["topic"] == self._topic:
                yield document

    @override
    def hidden(self) -> dict[str, int]:
        """Here nothing is."""
        return {}

    @override
    def again(self, doc_ids: Collection[str]) -> Iterator[StoredDocument]:
        self.requests += 1
        found = (self._index.get(self._name, doc_id) for doc_id in doc_ids)
        return iter([self._document(each) for each in found if each is not None])

    def _document(self, found: IndexedDocument) -> StoredDocument:
        state, said = _state(found), found.source["metadata"]
        buckets = said.get("s0"), said.get("s1")
        body = found.source.get(self._entity)
        return StoredDocument(state.doc_id, body, state.version, found.version, found.deleted, state.state, buckets)


def _states(index: MemoryIndex, name: str, topic: str) -> list[IndexState]:
    return [_state(f) for f in index.visible(name).values() if f.source["metadata"]["topic"] == topic]


def _state(found: IndexedDocument) -> IndexState:
    said = found.source["metadata"]
    d0, d1 = said.get("d0"), said.get("d1")
    state = None if d0 is None or d1 is None else of_limbs(d0, d1)
    known = said["doc_id"], said["version"], said["partition"], said["offset"]
    generation = said.get("generation", 0)
    return IndexState(*known, found.deleted, state, found.routing, found.version, generation=generation)
