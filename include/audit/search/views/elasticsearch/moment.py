"""A moment of an index in Elasticsearch: a point in time, searched by `_msearch`, and counted what that costs.

An answer counts only when it is whole: no shard failed, none was skipped for time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from include.audit.search.bounds import NO_LOWS, AuditBounds, Window
from include.audit.search.views.key_range import DocIdRange
from include.audit.search.views.range_count import IndexView, SeenDocument
from include.errors import Terminal, Transient
from include.index.server.elasticsearch import ElasticsearchIndex, call, connect
from include.settings.connections import Elasticsearch as Settings

if TYPE_CHECKING:
    import elasticsearch

__all__ = [
    "DOC_ID",
    "AtMoment",
    "ElasticsearchView",
    "PointInTime",
    "Requests",
    "above",
    "by_partition",
    "counting_client",
    "of_part",
    "unproven",
    "whole",
]

# The topic's side is read between two searches, for as long as it takes; a crash leaves the moment open so long.
_KEEP_ALIVE: Final = "1h"
_BODIES: Final = 500
_PARTITIONS: Final = 50_000
_SEARCH_S: Final = 120.0
DOC_ID: Final = "metadata.doc_id"
_RECEIVED: Final = "x-lyrebird-received"


def counting_client(settings: Settings) -> elasticsearch.Elasticsearch:
    """A client that tells with each answer, as a header, how many bytes of body came over the wire."""
    from elastic_transport import NodeConfig, Urllib3HttpNode

    class CountingNode(Urllib3HttpNode):
        def __init__(self, config: NodeConfig) -> None:
            super().__init__(config)
            send = self.pool.urlopen

            def urlopen(*args: Any, **kwargs: Any) -> Any:
                answer = send(*args, **kwargs)
                answer.headers[_RECEIVED] = str(answer.tell())
                return answer

            self.pool.urlopen = urlopen  # type: ignore[method-assign]

    return connect(settings, CountingNode)


class Requests:
    """Asks about one concrete index and counts that.

    `received` are bytes of answers as they came, packed; 0 where the index's client is not a `counting_client`.
    """

    def __init__(self, index: ElasticsearchIndex, name: str) -> None:
        self.requests = 0
        self.received = 0
        self.client: elasticsearch.Elasticsearch = index.client.options(
            request_timeout=_SEARCH_S, headers={"accept-encoding": "gzip"}
        )
        self._name = name

    def ask(self, request: Callable[[], Any]) -> Any:
        """The body of an answer; raises as `include.index.server.elasticsearch.call`."""
        answer = call(request, index=self._name)
        self.requests += 1
        self.received += int(answer.meta.headers.get(_RECEIVED, 0))
        return answer.body

    def documents(self, ids: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Documents by `_id` (and `routing`), realtime, those that exist; 1,000 in a request."""
        for start in range(0, len(ids), 1000):
            docs = [dict(one) for one in ids[start : start + 1000]]
            found = self.ask(
                lambda docs=docs: self.client.mget(index=self._name, docs=docs, source_includes=list(fields))  # type: ignore[misc]
            )
            for doc in found["docs"]:
                if "error" in doc:
                    raise Transient("document cannot be read", system="elasticsearch", reason=doc["error"]["type"])
                if doc["found"]:
                    yield doc


class PointInTime(Requests):
    """Opens a point in time of the concrete index `name` at once."""

    def __init__(self, index: ElasticsearchIndex, name: str) -> None:
        import elasticsearch

        super().__init__(index, name)
        try:
            opened = self.ask(lambda: self.client.open_point_in_time(index=name, keep_alive=_KEEP_ALIVE))
        except elasticsearch.NotFoundError as error:
            raise Terminal("index does not exist", index=name, fix="Run `lyrebird index create`.") from error
        self._pit: str | None = opened["id"]

    def search(
        self, bodies: Sequence[Mapping[str, Any]], filter_path: str | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """The whole answers to `bodies`, in order; `filter_path` has to keep what tells that an answer is whole."""
        for start in range(0, len(bodies), _BODIES):
            searches: list[dict[str, Any]] = []
            for body in bodies[start : start + _BODIES]:
                pit = {"id": self._pit, "keep_alive": _KEEP_ALIVE}
                searches += [{"allow_partial_search_results": False}, {"pit": pit, **body}]
            answer = self.ask(
                lambda searches=searches: self.client.msearch(searches=searches, filter_path=filter_path)  # type: ignore[misc]
            )
            for each in answer["responses"]:
                yield whole(each)

    def close(self) -> None:
        """Let go of the point in time, as it holds disk; may be called twice."""
        if self._pit is not None:
            pit, self._pit = self._pit, None
            import elasticsearch

            # One that has expired is let go already.
            with contextlib.suppress(elasticsearch.NotFoundError):
                self.ask(lambda: self.client.close_point_in_time(id=pit))


class AtMoment:
    """What looks at an index as it is at one moment."""

    _moment: PointInTime

    @property
    def requests(self) -> int:
        """Sent so far."""
        return self._moment.requests

    @property
    def received(self) -> int:
        """Bytes of answers."""
        return self._moment.received

    def close(self) -> None:
        """Let the moment go."""
        self._moment.close()


class ElasticsearchView(AtMoment, IndexView):
    """An `IndexView` of Elasticsearch. Opens the point in time at once; `name` is a concrete index."""

    def __init__(
        self,
        index: ElasticsearchIndex,
        name: str,
        topic: str,
        bounds: AuditBounds,
        to_id: Callable[[str], str] = str,
    ) -> None:
        self._to_id = to_id
        self._living: list[dict[str, Any]] = [
            {"term": {"metadata.topic": topic}},
            {"term": {"metadata.deleted": False}},
        ]
        self.narrow(bounds)
        self._moment = PointInTime(index, name)

    @override
    def narrow(self, bounds: AuditBounds) -> None:
        self._filter = [*self._living, _counted(bounds), *of_part(bounds)]
        self._above = [*self._living, above(bounds), *of_part(bounds)]

    @override
    def above(self) -> Mapping[int, int]:
        return by_partition(self._moment, self._above)

    @override
    def counts(self, ranges: Sequence[DocIdRange]) -> list[int]:
        found = self._search(ranges, {"size": 0, "track_total_hits": True})
        return [hits["total"]["value"] for hits in found]

    @override
    def ids(self, ranges: Sequence[DocIdRange], most: int) -> list[list[str]]:
        body = {"size": most, "track_total_hits": False, "_source": False, "sort": [{DOC_ID: "asc"}]}
        return [[hit["sort"][0] for hit in hits["hits"]] for hits in self._search(ranges, body)]

    @override
    def now(self, doc_ids: Sequence[str]) -> dict[str, SeenDocument]:
        out = {}
        for doc in self._moment.documents([{"_id": self._to_id(i)} for i in doc_ids], ["metadata"]):
            said = doc["_source"]["metadata"]
            known = said["partition"], said["offset"], said["version"], bool(said.get("deleted"))
            out[said["doc_id"]] = SeenDocument(*known, said.get("generation", 0))
        return out

    def _search(self, ranges: Sequence[DocIdRange], more: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        bodies = [{"query": {"bool": {"filter": [*self._filter, *_within(one)]}}, **more} for one in ranges]
        for answer in self._moment.search(bodies):
            yield answer["hits"]


def of_part(bounds: AuditBounds) -> list[dict[str, Any]]:
    """The filter for documents of the bounds' part; none where that is all."""
    if bounds.part is None:
        return []
    terms = {"terms": {"metadata.partition": sorted(bounds.part.partitions)}}
    return [terms if bounds.part.inside else {"bool": {"must_not": [terms]}}]


def by_partition(moment: PointInTime, filters: Sequence[Mapping[str, Any]]) -> Mapping[int, int]:
    """How many documents pass the filters, by partition."""
    counts = {"p": {"terms": {"field": "metadata.partition", "size": _PARTITIONS}}}
    query = {"bool": {"filter": list(filters)}}
    (found,) = moment.search([{"size": 0, "track_total_hits": False, "query": query, "aggs": counts}])
    told = found["aggregations"]["p"]
    if told["sum_other_doc_count"]:
        raise Transient("documents are of too many partitions to be counted", allowed=_PARTITIONS)
    return {int(each["key"]): int(each["doc_count"]) for each in told["buckets"]}


def above(bounds: AuditBounds) -> dict[str, Any]:
    """The query for documents from above the bounds that are not unproven."""
    return _not(_older(bounds), _in_window(bounds.window), unproven(bounds))


def unproven(bounds: AuditBounds) -> dict[str, Any] | None:
    """The query for documents that nobody can judge; None when there are none."""
    older = _older(bounds)
    gone = [_offsets(p, lt=start) for p, start in bounds.starts.items()]
    parts = [{"bool": {"filter": [each], "must_not": [older] if older else []}} for each in gone]
    if older is not None and not bounds.older_proven:
        parts.append(older)
    return _any(parts) if parts else None


def _counted(bounds: AuditBounds) -> dict[str, Any]:
    older, within = _older(bounds), _in_window(bounds.window, bounds.lows)
    # Documents of a former generation lie at offsets that mean nothing now.
    wanted = within if older is None else {"bool": {"filter": [within], "must_not": [older]}}
    if older is not None and not any(bounds.lows.values()):
        wanted = _any([wanted, older])
    left_out = unproven(bounds)
    return wanted if left_out is None else {"bool": {"filter": [wanted], "must_not": [left_out]}}


def _older(bounds: AuditBounds) -> dict[str, Any] | None:
    return {"range": {"metadata.generation": {"gt": 0, "lt": bounds.generation}}} if bounds.generation > 1 else None


def _in_window(window: Window, lows: Window = NO_LOWS) -> dict[str, Any]:
    parts = [_offsets(p, lt=offset, **({"gte": lows[p]} if lows.get(p) else {})) for p, offset in window.items()]
    return _any(parts) if parts else {"match_none": {}}


def _offsets(partition: int, **bounds: int) -> dict[str, Any]:
    filters = [{"term": {"metadata.partition": partition}}, {"range": {"metadata.offset": bounds}}]
    return {"bool": {"filter": filters}}


def _any(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"bool": {"should": list(parts), "minimum_should_match": 1}}


def _not(*parts: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"bool": {"must_not": [part for part in parts if part is not None]}}


def _within(one: DocIdRange) -> list[dict[str, Any]]:
    bounds = {name: key for name, key in (("gte", one.low), ("lt", one.high)) if key is not None}
    return [{"range": {DOC_ID: bounds}}] if bounds else []


def whole(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """One answer of an `_msearch`; raises `Transient` unless it is of all shards."""
    if answer.get("status") != 200:
        error = answer.get("error") or {}
        raise Transient("search failed", system="elasticsearch", reason=error.get("reason") or error.get("type"))
    shards = answer["_shards"]
    if answer["timed_out"] or shards["failed"] or shards["successful"] != shards["total"]:
        raise Transient("search answered for a part of the index only", system="elasticsearch", **shards)
    return answer
