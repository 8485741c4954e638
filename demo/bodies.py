"""Every body that search shows of an alias, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from include.errors import Transient

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

__all__ = ["bodies"]

_PAGE = 1000


def bodies(client: Elasticsearch, alias: str, entity: str) -> Iterator[dict[str, Any]]:
    """The `entity` of each document, by the documents' ids; raises `Transient` when the index cannot answer."""
    from elasticsearch import ApiError, TransportError

    after: list[Any] | None = None
    while True:
        try:
            answer = client.search(
                index=alias,
                query={"match_all": {}},
                sort=[{"metadata.doc_id": "asc"}],
                size=_PAGE,
                search_after=after,
            )
        except (ApiError, TransportError) as error:
            raise Transient("the index does not answer", system="elasticsearch", reason=str(error)) from error
        hits = answer["hits"]["hits"]
        yield from (hit["_source"][entity] for hit in hits)
        if len(hits) < _PAGE:
            return
        after = hits[-1]["sort"]
