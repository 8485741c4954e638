"""Asks a search server, and refuses answers that are not whole.

Raises `Transient` (no answer in time, a shard failed), `BackPressure` (full) or `Terminal` (refused).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from include.errors import Terminal, Transient
from include.index.server.elasticsearch import call

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["ElasticsearchEngine", "SearchEngine"]

_REQUEST_S = 5.0


class SearchEngine(Protocol):
    """A server that answers searches; safe to use from several threads."""

    def search(self, name: str, body: Mapping[str, Any], routing: str | None = None) -> Mapping[str, Any]:
        """The whole answer of index `name`; with `routing` of that shard alone."""


class ElasticsearchEngine(SearchEngine):
    """On the client that `index.server.elasticsearch` connects."""

    def __init__(self, client: elasticsearch.Elasticsearch) -> None:
        self._client = client.options(request_timeout=_REQUEST_S)

    @override
    def search(self, name: str, body: Mapping[str, Any], routing: str | None = None) -> Mapping[str, Any]:
        """HTTP 200 hides failed shards and answers that were cut by time: both are `Transient`."""
        import elasticsearch

        try:
            response = call(
                lambda: self._client.search(
                    index=name, body=dict(body), routing=routing, allow_partial_search_results=False
                ),
                index=name,
            ).body
        except elasticsearch.NotFoundError as error:
            alias = name.rpartition("-v")[0] or name
            raise Terminal("index does not exist", index=name, fix=f"Run `lyrebird index create {alias}`.") from error
        shards = response["_shards"]
        if response["timed_out"] or shards["failed"] or shards["successful"] != shards["total"]:
            raise Transient("not all shards answered", system="elasticsearch", index=name, shards=shards)
        answer: Mapping[str, Any] = response
        return answer
