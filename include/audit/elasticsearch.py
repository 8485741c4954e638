"""A moment of an index in Elasticsearch: a point in time, searched by `_msearch`, and counted what that costs.

An answer counts only when it is whole: no shard failed, none was skipped for time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from include.audit.key_range import KeyRange
from include.audit.range_count import NO_LOWS, Seen, Window
from include.errors import Terminal, Transient
from include.index.elasticsearch import ElasticsearchIndex, call, connect
from include.settings.connections import Elasticsearch as Settings

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["DOC_ID", "ElasticsearchView", "Moment", "Requests", "below", "counting_client", "whole"]

_KEEP_ALIVE: Final = "5m"
_BODIES: Final = 500
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
        """The body of an answer; raises as `include.index.elasticsearch.call`."""
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


class Moment(Requests):
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
            call(lambda: self.client.close_point_in_time(id=pit))


class ElasticsearchView:
    """See `range_count.IndexView`. Opens the point in time at once; `name` is a concrete index."""

    def __init__(
        self,
        index: ElasticsearchIndex,
        name: str,
        topic: str,
        window: Window,
        lows: Window = NO_LOWS,
        to_id: Callable[[str], str] = str,
    ) -> None:
        self._to_id = to_id
        self._filter = [
            {"term": {"metadata.topic": topic}},
            {"term": {"metadata.deleted": False}},
            below(window, lows),
        ]
        self._moment = Moment(index, name)

    @property
    def requests(self) -> int:
        """See `range_count.IndexView`."""
        return self._moment.requests

    @property
    def received(self) -> int:
        """See `range_count.IndexView`."""
        return self._moment.received

    def counts(self, ranges: Sequence[KeyRange]) -> list[int]:
        """See `range_count.IndexView`."""
        found = self._search(ranges, {"size": 0, "track_total_hits": True})
        return [hits["total"]["value"] for hits in found]

    def ids(self, ranges: Sequence[KeyRange], most: int) -> list[list[str]]:
        """See `range_count.IndexView`."""
        body = {"size": most, "track_total_hits": False, "_source": False, "sort": [{DOC_ID: "asc"}]}
        return [[hit["sort"][0] for hit in hits["hits"]] for hits in self._search(ranges, body)]

    def now(self, doc_ids: Sequence[str]) -> dict[str, Seen]:
        """See `range_count.IndexView`."""
        out = {}
        for doc in self._moment.documents([{"_id": self._to_id(i)} for i in doc_ids], ["metadata"]):
            said = doc["_source"]["metadata"]
            out[said["doc_id"]] = Seen(said["partition"], said["offset"], doc["_version"], bool(said.get("deleted")))
        return out

    def close(self) -> None:
        """See `range_count.IndexView`."""
        self._moment.close()

    def _search(self, ranges: Sequence[KeyRange], more: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        bodies = [{"query": {"bool": {"filter": [*self._filter, *_within(one)]}}, **more} for one in ranges]
        for answer in self._moment.search(bodies):
            yield answer["hits"]


def below(window: Window, lows: Window = NO_LOWS) -> dict[str, Any]:
    """The query for documents of offsets in the window."""
    parts: list[dict[str, Any]] = [
        {
            "bool": {
                "filter": [
                    {"term": {"metadata.partition": p}},
                    {"range": {"metadata.offset": {"lt": offset} | ({"gte": lows[p]} if lows.get(p) else {})}},
                ]
            }
        }
        for p, offset in window.items()
    ]
    return {"bool": {"should": parts, "minimum_should_match": 1}} if parts else {"match_none": {}}


def _within(one: KeyRange) -> list[dict[str, Any]]:
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
