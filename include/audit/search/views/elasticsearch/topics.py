"""Documents in Elasticsearch of topics that an index does not declare."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from include.audit.search.views.elasticsearch.moment import Requests, whole
from include.index.server.elasticsearch import ElasticsearchIndex

__all__ = ["undeclared_topics"]

_MOST = 1000


def undeclared_topics(index: ElasticsearchIndex, name: str, declared: Collection[str]) -> dict[str, int]:
    """Living documents by `metadata.topic` ("": without one), as of the last refresh.

    Raises `Transient` for an answer that is not whole.
    """
    requests = Requests(index, name)
    body: dict[str, Any] = {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {
                "must_not": [{"terms": {"metadata.topic": sorted(declared)}}, {"term": {"metadata.deleted": True}}]
            }
        },
        "aggs": {"topics": {"terms": {"field": "metadata.topic", "missing": "", "size": _MOST}}},
    }
    searches: list[dict[str, Any]] = [{"allow_partial_search_results": False}, body]
    answer = requests.ask(lambda: requests.client.msearch(index=name, searches=searches))
    (found,) = (whole(each) for each in answer["responses"])
    return {each["key"]: each["doc_count"] for each in found["aggregations"]["topics"]["buckets"]}
