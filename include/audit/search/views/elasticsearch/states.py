"""States of an index in Elasticsearch, added up by bucket there: two histograms move, not the documents.

Elasticsearch adds as doubles; limbs of 32 bits stay exact below 2^21 of them, so a fuller bucket is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from include.audit.search.bounds import AuditBounds
from include.audit.search.iblt import Histogram
from include.audit.search.views.elasticsearch.moment import (
    DOC_ID,
    AtMoment,
    PointInTime,
    above,
    by_partition,
    of_part,
    unproven,
)
from include.audit.search.views.state_view import MOST_ABOVE, IndexState, StateView, far_ahead
from include.errors import Terminal
from include.index.digest import BUCKET_BITS, VIEWS, of_limbs
from include.index.server.elasticsearch import ElasticsearchIndex

__all__ = ["ElasticsearchStates"]

_EXACT: Final = 1 << 21
_PAGE: Final = 10_000
_TERMS: Final = 5_000
_RANGES: Final = 500
_LIMB: Final = (1 << 32) - 1
_HIT: Final = ("_routing", "_version", "_seq_no", "_primary_term", "fields", "sort")
_WHOLE: Final = "responses.status,responses.error,responses.timed_out,responses._shards"
_PARTS: Final = ",".join(
    [
        _WHOLE,
        *(f"responses.aggregations.b.buckets.{name}" for name in ("key", "doc_count", "d0", "d1")),
        *(f"responses.hits.hits.{name}" for name in _HIT),
    ]
)
_NAMES: Final = ("doc_id", "version", "partition", "offset", "deleted", "generation", "d0", "d1")
_FIELDS: Final = [f"metadata.{n}" for n in _NAMES]


class ElasticsearchStates(AtMoment, StateView):
    """A `StateView` of Elasticsearch. Opens its moment at once.

    Args:
        index: the server.
        name: a concrete index.
        topic: whose documents count.
        bounds: which of them are judged.
        to_id: `_id` of a document of that topic, from its `doc_id`.
    """

    stateless: Sequence[IndexState] = ()

    def __init__(
        self, index: ElasticsearchIndex, name: str, topic: str, bounds: AuditBounds, to_id: Callable[[str], str] = str
    ) -> None:
        self._index = index
        self._name = name
        self._to_id = to_id
        self._topic: dict[str, Any] = {"term": {"metadata.topic": topic}}
        self._all_living = [self._topic, {"term": {"metadata.deleted": False}}]
        self.narrow(bounds)
        self._moment = PointInTime(index, name)

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        self._unproven, self._part = unproven(bounds), of_part(bounds)
        out = [] if self._unproven is None else [{"bool": {"must_not": [self._unproven]}}]
        self._living = [*self._all_living, *out, *self._part]
        self._beyond = [self._topic, above(bounds), *self._part]
        self._above = _page({"bool": {"filter": self._beyond}})
        limbs = [{"exists": {"field": f"metadata.{name}"}} for name in ("d0", "d1")]
        without = {"bool": {"must_not": [{"bool": {"filter": limbs}}]}}
        self._without_state = _page({"bool": {"filter": [*self._living, without]}})

    @override
    def unproven(self) -> int:
        if self._unproven is None:
            return 0
        filters = [*self._all_living, self._unproven, *self._part]
        body = {"size": 0, "track_total_hits": True, "query": {"bool": {"filter": filters}}}
        (found,) = self._moment.search([body])
        return int(found["hits"]["total"]["value"])

    @override
    def above(self) -> Mapping[int, int]:
        return by_partition(self._moment, self._beyond)

    @override
    def histograms(self, bits: int) -> tuple[tuple[Histogram, ...], list[IndexState]]:
        sums = {name: {"sum": {"field": f"metadata.{name}"}} for name in ("d0", "d1")}
        bodies: list[dict[str, Any]] = [
            {
                "size": 0,
                "track_total_hits": False,
                "query": {"bool": {"filter": self._living}},
                "aggs": {
                    "b": {
                        "histogram": {
                            "field": f"metadata.s{view}",
                            "interval": 1 << (BUCKET_BITS - bits),
                            "min_doc_count": 1,
                        },
                        "aggs": sums,
                    }
                },
            }
            for view in range(len(VIEWS))
        ]
        *found, above, without = self._moment.search([*bodies, self._above, self._without_state], _PARTS)
        self.stateless = self._rest(self._without_state, without, None)
        return tuple(_histogram(answer, bits) for answer in found), self._rest(self._above, above, MOST_ABOVE)

    @override
    def holders(self, states: Collection[int]) -> list[IndexState]:
        wanted = set(states)
        limbs = sorted({state & _LIMB for state in wanted})
        out: list[IndexState] = []
        for start in range(0, len(limbs), _TERMS):
            terms = {"terms": {"metadata.d0": limbs[start : start + _TERMS]}}
            out += self._list({"bool": {"filter": [*self._all_living, terms]}})
        return [found for found in out if found.state in wanted]

    @override
    def in_buckets(self, bits: int, places: Sequence[int]) -> list[IndexState]:
        width, ordered = 1 << (BUCKET_BITS - bits), sorted(places)
        out: list[IndexState] = []
        for start in range(0, len(ordered), _RANGES):
            ranges = [
                {"range": {"metadata.s0": {"gte": place * width, "lt": (place + 1) * width}}}
                for place in ordered[start : start + _RANGES]
            ]
            out += self._list({"bool": {"filter": self._living, "should": ranges, "minimum_should_match": 1}})
        return out

    @override
    def now(self, doc_ids: Collection[str], *, everywhere: bool) -> dict[str, list[IndexState]]:
        out: dict[str, list[IndexState]] = {}
        if not everywhere:
            ids = [{"_id": self._to_id(doc_id)} for doc_id in doc_ids]
            for doc in self._moment.documents(ids, _FIELDS):
                state = _state(doc["_source"]["metadata"], doc)
                out.setdefault(state.doc_id, []).append(state)
            return out
        self._index.refresh(self._name)
        later = PointInTime(self._index, self._name)
        try:
            wanted = sorted(doc_ids)
            for start in range(0, len(wanted), _TERMS):
                terms = {"terms": {DOC_ID: wanted[start : start + _TERMS]}}
                for state in self._list({"bool": {"filter": [self._topic, terms]}}, later, written=True):
                    out.setdefault(state.doc_id, []).append(state)
        finally:
            later.close()
            self._moment.requests += later.requests + 1
            self._moment.received += later.received
        return out

    def _list(
        self, query: Mapping[str, Any], moment: PointInTime | None = None, *, written: bool = False
    ) -> list[IndexState]:
        moment = moment or self._moment
        body = _page(query) | {"seq_no_primary_term": written}
        (first,) = moment.search([body], _PARTS)
        return self._rest(body, first, None, moment)

    def _rest(
        self, body: Mapping[str, Any], page: Mapping[str, Any], most: int | None, moment: PointInTime | None = None
    ) -> list[IndexState]:
        """A list from its first page on; `Transient` when it grows beyond `most`."""
        out: list[IndexState] = []
        while True:
            hits = page.get("hits", {}).get("hits", [])
            out += [_state({n.removeprefix("metadata."): v[0] for n, v in hit["fields"].items()}, hit) for hit in hits]
            if len(hits) < _PAGE:
                return out
            if most is not None and len(out) >= most:
                raise far_ahead(self._name, len(out))
            (page,) = (moment or self._moment).search([{**body, "search_after": hits[-1]["sort"]}], _PARTS)


def _page(query: Mapping[str, Any]) -> dict[str, Any]:
    # `_shard_doc` tells documents apart that share their id, which copies under other routings do.
    return {
        "size": _PAGE,
        "track_total_hits": False,
        "version": True,
        "_source": False,
        "docvalue_fields": _FIELDS,
        "sort": [{DOC_ID: "asc"}, {"_shard_doc": "asc"}],
        "query": query,
    }


def _histogram(answer: Mapping[str, Any], bits: int) -> Histogram:
    out: dict[int, tuple[int, int]] = {}
    width = 1 << (BUCKET_BITS - bits)
    for entry in answer.get("aggregations", {}).get("b", {}).get("buckets", ()):
        count = entry["doc_count"]
        if count >= _EXACT:
            raise Terminal(
                "too many documents in one bucket to be added up exactly",
                documents=count,
                bits=bits,
                allowed=f"below {_EXACT}",
                fix="Split the index into several, or run `lyrebird audit search` with --mode bisect.",
            )
        out[int(entry["key"]) // width] = count, of_limbs(int(entry["d0"]["value"]), int(entry["d1"]["value"]))
    return out


def _state(metadata: Mapping[str, Any], hit: Mapping[str, Any]) -> IndexState:
    d0, d1 = metadata.get("d0"), metadata.get("d1")
    return IndexState(
        metadata["doc_id"],
        metadata["version"],
        metadata["partition"],
        metadata["offset"],
        metadata["deleted"] in (True, "true"),
        None if d0 is None or d1 is None else of_limbs(d0, d1),
        hit.get("_routing"),
        hit.get("_version", 0),
        (hit["_seq_no"], hit["_primary_term"]) if "_primary_term" in hit else None,
        metadata.get("generation", 0),
    )
