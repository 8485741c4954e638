"""Both sides of a dark launch of joined rows: pages of documents, and the rows that name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from typing_extensions import override

from include.clock import Clock
from include.index.server.port import SearchIndex
from include.record.position import SourcePosition
from include.search.cursor import field_of
from include.search.dark_rows.definition import DarkRows, IndexSide
from include.search.database import PositionedTables
from include.search.engine import SearchEngine
from include.search.serving import Serving

__all__ = ["IndexedSides", "RowSides"]

SideBody = Mapping[str, Any]
_PAGE: Final = 500
_ROWS: Final = 2000


class RowSides(Protocol):
    """What is compared. Answers are what a search sees at that time."""

    def pages(self) -> Iterator[Mapping[str, SideBody]]:
        """All documents by id, a page at a time."""

    def documents(self, doc_ids: Collection[str]) -> Mapping[str, SideBody]:
        """Those of these documents that are there."""

    def rows(self, of: Collection[Any]) -> Mapping[str, Sequence[SideBody]]:
        """Rows by the value, as text, that names their document; values without rows are left out."""

    def position(self) -> SourcePosition | None:
        """Where the database stands: what was answered before is below it. None: it does not say."""

    def visible(self) -> tuple[SourcePosition | None, SourcePosition | None]:
        """Up to where searches see all, of documents and of rows; None where an index does not say."""


class IndexedSides(RowSides):
    """`RowSides` of two indexes, and the database that both were made of, of which the position alone is read."""

    def __init__(
        self, entry: DarkRows, index: SearchIndex, engine: SearchEngine, database: PositionedTables, clock: Clock
    ) -> None:
        self._entry, self._engine, self._database, self._clock = entry, engine, database, clock
        self._serving = [Serving(index, side.alias, side.topic, clock) for side in (entry.documents, entry.rows)]

    @override
    def pages(self) -> Iterator[Mapping[str, SideBody]]:
        after: list[Any] | None = None
        while True:
            page, after = self._page(self._entry.documents, {"match_all": {}}, _PAGE, after)
            if page:
                yield dict(page)
            if after is None:
                return

    @override
    def documents(self, doc_ids: Collection[str]) -> Mapping[str, SideBody]:
        return dict(self._all(self._entry.documents, {"terms": {"metadata.doc_id": sorted(doc_ids)}}))

    @override
    def rows(self, of: Collection[Any]) -> Mapping[str, Sequence[SideBody]]:
        field, rows = self._entry.rules.of, dict[str, list[SideBody]]()
        if of:
            side = self._entry.rows
            for _, row in self._all(side, {"terms": {f"{side.entity}.{field}": list(of)}}):
                rows.setdefault(str(field_of(row, field)), []).append(row)
        return rows

    @override
    def position(self) -> SourcePosition | None:
        return self._database.newest()

    @override
    def visible(self) -> tuple[SourcePosition | None, SourcePosition | None]:
        now_s = self._clock.monotonic_s()
        documents, rows = (
            None if standing.uncovered else standing.visible
            for standing in (serving.now(newer_than_s=now_s) for serving in self._serving)
        )
        return documents, rows

    def _all(self, side: IndexSide, query: Mapping[str, Any]) -> Iterator[tuple[str, SideBody]]:
        after: list[Any] | None = None
        while True:
            page, after = self._page(side, query, _ROWS, after)
            yield from page
            if after is None:
                return

    def _page(
        self, side: IndexSide, query: Mapping[str, Any], size: int, after: list[Any] | None
    ) -> tuple[list[tuple[str, SideBody]], list[Any] | None]:
        """A page by id, and where the next begins; None after the last. The alias hides tombstones."""
        rules = self._entry.rules
        fields = rules.fields_of_documents if side is self._entry.documents else rules.fields_of_rows
        body: dict[str, Any] = {
            "query": query,
            "size": size,
            "sort": [{"metadata.doc_id": "asc"}],
            "_source": ["metadata.doc_id", *(f"{side.entity}.{field}" for field in fields)],
            "track_total_hits": False,
        }
        if after is not None:
            body["search_after"] = after
        hits = self._engine.search(side.alias, body)["hits"]["hits"]
        found = [(hit["_source"]["metadata"]["doc_id"], hit["_source"].get(side.entity, {})) for hit in hits]
        return found, hits[-1]["sort"] if len(hits) == size else None
