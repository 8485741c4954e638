"""Whole documents in Elasticsearch by their sequence numbers, shard by shard, as these count in a shard alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from include.audit.search.scrub import Marks, StoredDocument, StoredDocuments
from include.audit.search.views.elasticsearch.moment import Requests, whole
from include.index.digest import of_limbs
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.unindexed_values import ignored_values

__all__ = ["ElasticsearchDocuments"]

_PAGE: Final = 2_000
_STATES: Final = 1 << 32
_METADATA: Final = [f"metadata.{name}" for name in ("doc_id", "version", "deleted", "d0", "d1", "s0", "s1")]


class ElasticsearchDocuments(StoredDocuments):
    """`StoredDocuments` of Elasticsearch. `name` is a concrete index, `entity` the body's name in its documents."""

    def __init__(
        self, index: ElasticsearchIndex, name: str, topic: str, entity: str, to_id: Callable[[str], str] = str
    ) -> None:
        self._index = index
        self._name = name
        self._entity = entity
        self._to_id = to_id
        self._topic = {"term": {"metadata.topic": topic}}
        self._requests = Requests(index, name)

    @property
    @override
    def requests(self) -> int:
        return self._requests.requests

    @property
    @override
    def received(self) -> int:
        return self._requests.received

    @override
    def marks(self) -> Marks:
        client = self._requests.client
        path = "indices.*.shards.*.seq_no.local_checkpoint"
        found = self._requests.ask(lambda: client.indices.stats(index=self._name, level="shards", filter_path=path))
        shards = found.get("indices", {}).get(self._name, {}).get("shards", {})
        # Above a local checkpoint there may be gaps: writes that are still under way.
        marks = {int(n): min(copy["seq_no"]["local_checkpoint"] for copy in copies) for n, copies in shards.items()}
        self._index.refresh(self._name)
        self._requests.requests += 1
        return marks

    @override
    def written(self, after: Marks, upto: Marks, share: tuple[int, int] | None = None) -> Iterator[StoredDocument]:
        more: list[dict[str, Any]] = [self._topic]
        if share is not None:
            n, of = share
            limb = {"gte": n * _STATES // of, "lt": (n + 1) * _STATES // of}
            more += [{"term": {"metadata.deleted": False}}, {"range": {"metadata.d0": limb}}]
        left = {shard: after.get(shard, -1) for shard, mark in upto.items() if after.get(shard, -1) < mark}
        while left:
            searches: list[dict[str, Any]] = []
            for shard, last in left.items():
                numbers = {"range": {"_seq_no": {"gt": last, "lte": upto[shard]}}}
                searches += [
                    {"preference": f"_shards:{shard}", "allow_partial_search_results": False},
                    {
                        "size": _PAGE,
                        "track_total_hits": False,
                        "version": True,
                        "_source": [*_METADATA, self._entity],
                        "sort": [{"_seq_no": "asc"}],
                        "query": {"bool": {"filter": [*more, numbers]}},
                    },
                ]
            for shard, each in zip(list(left), self._searched(searches), strict=True):
                hits = each["hits"]["hits"]
                yield from (self._document(hit) for hit in hits)
                if len(hits) < _PAGE:
                    del left[shard]
                else:
                    left[shard] = hits[-1]["sort"][0]

    def _searched(self, searches: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        client = self._requests.client
        answer = self._requests.ask(lambda: client.msearch(index=self._name, searches=searches))
        yield from (whole(each) for each in answer["responses"])

    @override
    def hidden(self) -> dict[str, int]:
        """Of all topics of the index."""
        self._requests.requests += 1
        return ignored_values(self._requests.client, self._name)

    @override
    def again(self, doc_ids: Collection[str]) -> Iterator[StoredDocument]:
        ids = [{"_id": self._to_id(doc_id)} for doc_id in sorted(doc_ids)]
        for doc in self._requests.documents(ids, [*_METADATA, self._entity]):
            yield self._document(doc)

    def _document(self, hit: Mapping[str, Any]) -> StoredDocument:
        source = hit["_source"]
        said = source["metadata"]
        d0, d1 = said.get("d0"), said.get("d1")
        return StoredDocument(
            said["doc_id"],
            source.get(self._entity),
            said["version"],
            hit["_version"],
            bool(said.get("deleted")),
            None if d0 is None or d1 is None else of_limbs(d0, d1),
            (said.get("s0"), said.get("s1")),
        )
