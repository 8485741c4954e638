"""Searches the index for the demo, through the alias that every reader uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from demo.bodies import bodies
from include.settings.connections import Elasticsearch as Settings

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

__all__ = ["OrdersIndex"]


class OrdersIndex:
    """Searches an alias; every answer is what a user's search would show, never a realtime GET."""

    def __init__(self, settings: Settings, alias: str = "orders", entity: str = "order") -> None:
        from include.index.server.elasticsearch import connect

        self._client: Elasticsearch = connect(settings)
        self._alias = alias
        self._entity = entity

    def rows(self, order_ids: Sequence[int]) -> list[tuple[int, int]]:
        """(order, newest row) of those of `order_ids` that search shows; empty while the index cannot answer."""
        from elasticsearch import ApiError, TransportError

        try:
            answer = self._client.search(
                index=self._alias,
                query={"terms": {"metadata.doc_id": [str(i) for i in order_ids]}},
                source_includes=[f"{self._entity}.order_id", f"{self._entity}.order_row_id"],
                size=len(order_ids),
            )
        except (ApiError, TransportError):
            return []
        found = (hit["_source"][self._entity] for hit in answer["hits"]["hits"])
        return [(body["order_id"], body["order_row_id"]) for body in found]

    def count(self) -> int | None:
        """Documents that search shows, or None while the index cannot answer."""
        from elasticsearch import ApiError, TransportError

        try:
            return int(self._client.count(index=self._alias)["count"])
        except (ApiError, TransportError):
            return None

    def bodies(self) -> dict[int, dict[str, Any]]:
        """Every document, by order id; raises `Transient` when the index cannot answer."""
        return {body["order_id"]: body for body in bodies(self._client, self._alias, self._entity)}

    def close(self) -> None:
        """Give up the connection."""
        self._client.close()
