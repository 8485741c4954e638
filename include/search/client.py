"""Searches of one entity in the index: lists, full text, rankings, places. Fresh up to what the index has.

For a reader's own writes see `fresh`. Safe to use from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from include.clock import Clock
from include.errors import Terminal
from include.index.server.port import SearchIndex
from include.search.answer import CompleteTo, Hit, Page, RankedName, Ranking
from include.search.cursor import DistanceCursor, ListPlace
from include.search.definition import SearchTarget
from include.search.engine import SearchEngine
from include.search.queries import Circle, Filters, Pieces, by_text, listed, nearest, ranking
from include.search.serving import Serving, ServingIndex

__all__ = ["IndexSearch"]

T = TypeVar("T")


class IndexSearch:
    """The index's side."""

    def __init__(self, target: SearchTarget, index: SearchIndex, engine: SearchEngine, clock: Clock) -> None:
        self.target = target
        self.serving = Serving(index, target.search.index, target.topic, clock)
        self._index = index
        self._engine = engine

    def one(self, doc_id: str) -> tuple[Hit | None, CompleteTo]:
        """The document, realtime: also before a refresh. Where documents are routed, as a search sees it."""
        return self._asked(lambda standing: self._one(standing, doc_id))

    def of_user(self, user: str | int, size: int = 20, after: str | None = None) -> Page:
        """Documents of one user, newest first."""
        return self.listed(Filters(user=user), size, after)

    def listed(self, filters: Filters, size: int = 20, after: str | None = None) -> Page:
        """Documents that pass the filters, newest first."""
        body = listed(self.target, filters, size, ListPlace.parse(after) if after else None)
        return self._by_time(body, filters, size)

    def text(
        self,
        words: str,
        pieces: Pieces | None = None,
        filters: Filters | None = None,
        size: int = 20,
        after: str | None = None,
    ) -> Page:
        """Documents with a line that has all these words, and that quantity, newest first."""
        filters = filters or Filters()
        moment = ListPlace.parse(after) if after else None
        return self._by_time(by_text(self.target, words, pieces or Pieces(), filters, size, moment), filters, size)

    def near(self, circle: Circle, filters: Filters | None = None, size: int = 20, after: str | None = None) -> Page:
        """Documents in the circle, nearest first, with their distance."""
        filters = filters or Filters()
        body = nearest(self.target, circle, filters, size, DistanceCursor.parse(after) if after else None)
        return self._asked(lambda standing: self._page(standing, body, filters, size, _distance))

    def popular(
        self,
        by: Literal["item", "category"] = "item",
        filters: Filters | None = None,
        size: int = 10,
        category: str | None = None,
    ) -> Ranking:
        """Items or categories with the most lines, of documents that pass the filters; `category`: its lines alone."""
        filters = filters or Filters()
        body = ranking(self.target, by, filters, size, category)
        return self._asked(lambda standing: _ranking(self._search(standing, body, filters), _seen(standing)))

    def _by_time(self, body: Mapping[str, Any], filters: Filters, size: int) -> Page:
        def moment(hit: Hit) -> str:
            return str(ListPlace.of(hit.body, self.target.search.time, hit.doc_id, self.target.time_step_us))

        return self._asked(lambda standing: self._page(standing, body, filters, size, moment))

    def _page(
        self,
        standing: ServingIndex,
        body: Mapping[str, Any],
        filters: Filters,
        size: int,
        cursor: Callable[[Hit], str],
    ) -> Page:
        found = self._search(standing, body, filters)["hits"]["hits"]
        hits = tuple(self._hit(raw, "_geo_distance" in body["sort"][0]) for raw in found)
        return Page(hits, cursor(hits[-1]) if len(hits) == size else None, _seen(standing))

    def _one(self, standing: ServingIndex, doc_id: str) -> tuple[Hit | None, CompleteTo]:
        if self.target.routing is not None:
            deleted = {"term": {"metadata.deleted": True}}
            query = {"bool": {"filter": [{"term": {"metadata.doc_id": doc_id}}], "must_not": [deleted]}}
            # A change of routing leaves an older copy in another shard for a while.
            body = {"query": query, "size": 1, "sort": [{"metadata.version": "desc"}]}
            raw = self._engine.search(standing.name, body)["hits"]["hits"]
            return (self._hit(raw[0]) if raw else None), _seen(standing)
        found = self._index.get(standing.name, self.target.index_id(doc_id))
        seen = CompleteTo("index", standing.complete, uncovered=standing.uncovered)
        if found is None or found.deleted:
            return None, seen
        return Hit(doc_id, found.version, found.source[self.target.search.entity]), seen

    def _hit(self, raw: Mapping[str, Any], by_distance: bool = False) -> Hit:
        source = raw["_source"]
        inner = raw.get("inner_hits", {})
        lines = tuple(line["_source"] for each in inner.values() for line in each["hits"]["hits"])
        metadata = source["metadata"]
        body = source[self.target.search.entity]
        return Hit(metadata["doc_id"], metadata["version"], body, lines, raw["sort"][0] if by_distance else None)

    def _search(self, standing: ServingIndex, body: Mapping[str, Any], filters: Filters) -> Mapping[str, Any]:
        routed = self.target.routing == self.target.search.user and filters.user is not None
        return self._engine.search(standing.name, body, str(filters.user) if routed else None)

    def _asked(self, question: Callable[[ServingIndex], T]) -> T:
        """Put a question to the index that serves; once more when that one was dropped since it was looked up."""
        standing = self.serving.now()
        try:
            return question(standing)
        except Terminal:
            self.serving.forget()
            if self.serving.now().name == standing.name:
                raise
        return question(self.serving.now())


def _seen(standing: ServingIndex) -> CompleteTo:
    return CompleteTo("index", standing.visible, uncovered=standing.uncovered)


def _distance(hit: Hit) -> str:
    return str(DistanceCursor(hit.distance_m or 0.0, hit.doc_id))


def _ranking(answer: Mapping[str, Any], seen: CompleteTo) -> Ranking:
    lines = answer["aggregations"]["lines"]
    names = lines.get("only", lines)["names"]
    rows = tuple(
        RankedName(str(each["key"]), each["doc_count"], each["documents"]["doc_count"], each["pieces"]["value"])
        for each in names["buckets"]
    )
    return Ranking(rows, names["sum_other_doc_count"], names["doc_count_error_upper_bound"], seen)
