"""The view on Elasticsearch: a point in time, counted and listed by `_msearch`.

An answer counts only when it is whole: no shard failed, none was skipped for time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from include.audit.key_range import KeyRange
from include.audit.range_count import Seen, Window
from include.errors import Terminal, Transient
from include.index.elasticsearch import ElasticsearchIndex, call

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["ElasticsearchView"]

_KEEP_ALIVE: Final = "5m"
_BODIES: Final = 500
_SEARCH_S: Final = 60.0
_ID: Final = "metadata.doc_id"


class ElasticsearchView:
    """See `range_count.IndexView`. Opens the point in time at once; `name` is a concrete index."""

    def __init__(self, index: ElasticsearchIndex, name: str, topic: str, window: Window) -> None:
        import elasticsearch

        self.requests = 0
        self._index = index
        self._name = name
        self._client: elasticsearch.Elasticsearch = index.client.options(request_timeout=_SEARCH_S)
        self._filter = _living(topic, window)
        try:
            opened = call(lambda: self._client.open_point_in_time(index=name, keep_alive=_KEEP_ALIVE), index=name)
        except elasticsearch.NotFoundError as error:
            raise Terminal("index does not exist", index=name, fix="Run `lyrebird index create`.") from error
        self.requests += 1
        self._pit: str | None = opened.body["id"]

    def counts(self, ranges: Sequence[KeyRange]) -> list[int]:
        """See `range_count.IndexView`."""
        found = self._search(ranges, {"size": 0, "track_total_hits": True})
        return [hits["total"]["value"] for hits in found]

    def ids(self, ranges: Sequence[KeyRange], most: int) -> list[list[str]]:
        """See `range_count.IndexView`."""
        body = {"size": most, "track_total_hits": False, "_source": False, "sort": [{_ID: "asc"}]}
        return [[hit["sort"][0] for hit in hits["hits"]] for hits in self._search(ranges, body)]

    def now(self, doc_ids: Sequence[str]) -> dict[str, Seen]:
        """See `range_count.IndexView`."""
        self.requests += -(-len(doc_ids) // 1000)
        out = {}
        for doc_id, found in self._index.get_many(self._name, doc_ids).items():
            metadata = found.source["metadata"]
            out[doc_id] = Seen(metadata["partition"], metadata["offset"], found.version, found.deleted)
        return out

    def close(self) -> None:
        """See `range_count.IndexView`."""
        if self._pit is not None:
            pit, self._pit = self._pit, None
            call(lambda: self._client.close_point_in_time(id=pit))

    def _search(self, ranges: Sequence[KeyRange], more: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(ranges), _BODIES):
            searches: list[dict[str, Any]] = []
            for one in ranges[start : start + _BODIES]:
                query = {"bool": {"filter": [*self._filter, *_within(one)]}}
                pit = {"id": self._pit, "keep_alive": _KEEP_ALIVE}
                searches += [{"allow_partial_search_results": False}, {"query": query, "pit": pit, **more}]
            answer = call(lambda searches=searches: self._client.msearch(searches=searches))  # type: ignore[misc]
            self.requests += 1
            for one_answer in answer.body["responses"]:
                yield _whole(one_answer)


def _living(topic: str, window: Window) -> list[dict[str, Any]]:
    below: list[dict[str, Any]] = [
        {"bool": {"filter": [{"term": {"metadata.partition": p}}, {"range": {"metadata.offset": {"lt": offset}}}]}}
        for p, offset in window.items()
    ]
    limits = {"bool": {"should": below, "minimum_should_match": 1}} if below else {"match_none": {}}
    return [{"term": {"metadata.topic": topic}}, {"term": {"metadata.deleted": False}}, limits]


def _within(one: KeyRange) -> list[dict[str, Any]]:
    bounds = {name: key for name, key in (("gte", one.low), ("lt", one.high)) if key is not None}
    return [{"range": {_ID: bounds}}] if bounds else []


def _whole(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if answer.get("status") != 200:
        error = answer.get("error") or {}
        raise Transient("search failed", system="elasticsearch", reason=error.get("reason") or error.get("type"))
    shards = answer["_shards"]
    if answer["timed_out"] or shards["failed"] or shards["successful"] != shards["total"]:
        raise Transient("search answered for a part of the index only", system="elasticsearch", **shards)
    hits: Mapping[str, Any] = answer["hits"]
    return hits
