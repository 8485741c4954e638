"""Values that documents show and searches do not find: what `ignore_above` and `ignore_malformed` left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from include.errors import Terminal, Transient
from include.index.server.elasticsearch import call

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["ignored_values"]

_MOST_FIELDS = 1000


def ignored_values(client: elasticsearch.Elasticsearch, index: str) -> dict[str, int]:
    """Documents by field, as of the last refresh, in which the field has a value that no search finds.

    A document with several such fields counts for each. Raises `Terminal` without the index, `Transient` when a shard
    did not answer.
    """
    import elasticsearch

    try:
        answer = call(
            lambda: client.search(
                index=index,
                size=0,
                allow_partial_search_results=False,
                aggs={"fields": {"terms": {"field": "_ignored", "size": _MOST_FIELDS}}},
            ),
            index=index,
        ).body
    except elasticsearch.NotFoundError as error:
        raise Terminal("index does not exist", index=index, fix="Run `lyrebird index create`.") from error
    shards = answer["_shards"]
    if answer["timed_out"] or shards["failed"] or shards["successful"] != shards["total"]:
        raise Transient("a shard did not answer", system="elasticsearch", index=index, failed=shards["failed"])
    return {bucket["key"]: bucket["doc_count"] for bucket in answer["aggregations"]["fields"]["buckets"]}
