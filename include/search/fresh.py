"""Reads that have the reader's own write: from the index where it is there, else with the database's help.

The index is asked first, the database after it, so that what the database says is never older. While the index is away
or lost the database answers alone, under the same cap. Every answer says where it came from and up to where it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import BackPressure, InvalidRecord, LyrebirdError, Transient
from include.metrics.exporter import Metrics
from include.record.position import SourcePosition
from include.search.answer import CompleteTo, Hit, Page
from include.search.client import IndexSearch
from include.search.cursor import ListPlace
from include.search.database import DatabaseDocuments, DatabaseRead
from include.search.freshness import UnindexedIds, covers, next_step
from include.search.merge import merged
from include.search.queries import Filters, listed
from include.search.serving import NoIndex, ServingIndex

__all__ = ["FreshSearch"]

_POLL_S: Final = 0.05
_SHARED_S: Final = 0.1


class FreshSearch:
    """Safe to use from several threads. Without `database` an answer may lack the write: `seen.fresh` then says so."""

    def __init__(
        self, index: IndexSearch, database: DatabaseDocuments | None, clock: Clock, metrics: Metrics | None = None
    ) -> None:
        self.index = index
        self._database = database
        self._clock = clock
        self._metrics = metrics
        fresh = index.target.search.fresh
        self._patience_s = fresh.patience_ms / 1000
        self._not_yet = UnindexedIds(fresh.remember_s, clock)

    def one(self, doc_id: str, written: str | None = None) -> tuple[Hit | None, CompleteTo]:
        """One document. `written`: GTIDs of the write that must be in it.

        Raises `Transient`, `BackPressure` or `NoIndex` when neither side can be asked.
        """
        try:
            self._wait(written, lambda standing: standing.complete)
            hit, seen = self.index.one(doc_id)
        except (Transient, BackPressure, NoIndex) as away:
            read = self._instead(lambda database: database.by_id(doc_id), away)
            seen = CompleteTo("mysql", read.position, fresh=_may_have(read, written))
            return read.documents.get(doc_id), self._told(seen)
        if written is None or _covers(seen, written):
            return hit, self._told(seen)
        supplement = self._supplement(lambda database: database.by_id(doc_id))
        if supplement is None:
            return hit, self._told(replace(seen, fresh=False))
        fresh = _may_have(supplement, written)
        if doc_id in supplement.unfinished:
            return hit, self._told(replace(seen, origin="index+mysql", fresh=fresh))
        return supplement.documents.get(doc_id), self._told(CompleteTo("mysql", supplement.position, fresh=fresh))

    def of_user(
        self,
        user: str | int,
        size: int = 20,
        after: str | None = None,
        *,
        latest: str | None = None,
        written: str | None = None,
    ) -> Page:
        """A user's documents, newest first.

        Args:
            user: whose.
            size: most documents.
            after: end of the last page.
            latest: id of the newest document that the caller knows of.
            written: GTIDs of the caller's write.

        Raises `Transient`, `BackPressure` or `NoIndex` when neither side can be asked.
        """
        # A question that nobody could answer is refused before anything is asked.
        listed(self.index.target, Filters(user=user), size, ListPlace.parse(after) if after else None)
        try:
            self._wait(written, lambda standing: standing.visible)
            page = self.index.of_user(user, size, after)
            # By the position of the answer itself: another generation may serve by now.
            if written is None or _covers(page.seen, written):
                return self._with_latest(page, user, size, after, latest)
        except (Transient, BackPressure, NoIndex) as away:
            read = self._instead(lambda database: database.of_user(user), away)
            whole = CompleteTo("mysql", read.position, fresh=not read.more and _may_have(read, written))
            return self._page((), False, read.documents, whole, size, after)
        supplement = self._supplement(lambda database: database.of_user(user, [hit.doc_id for hit in page.hits]))
        if supplement is None:
            return self._stale(page)
        others = {**self._gone(page, supplement), **supplement.documents}
        for doc_id in supplement.unfinished:
            others.pop(doc_id, None)
        seen = replace(page.seen, origin="index+mysql", fresh=_may_have(supplement, written))
        return self._page(page.hits, page.next is not None, others, seen, size, after)

    def _with_latest(self, page: Page, user: str | int, size: int, after: str | None, latest: str | None) -> Page:
        """The page with the caller's latest document in it, which the index may have without showing it yet."""
        if latest is None or any(hit.doc_id == latest for hit in page.hits):
            self._told(page.seen)
            return page
        hit, _ = self.index.one(latest)
        seen = page.seen
        if hit is None and latest not in self._not_yet:
            found = self._supplement(lambda database: database.by_id(latest))
            if found is None:
                return self._stale(page)
            seen = replace(page.seen, origin="index+mysql")
            hit = found.documents.get(latest)
            if hit is None:
                self._not_yet.add(latest)
        elif hit is not None:
            self._not_yet.discard(latest)
        if hit is None or str(hit.body.get(self.index.target.search.user)) != str(user):
            self._told(seen)
            return Page(page.hits, page.next, seen)
        return self._page(page.hits, page.next is not None, {latest: hit}, seen, size, after)

    def _wait(self, written: str | None, position_of: Callable[[ServingIndex], SourcePosition | None]) -> None:
        """Return when the index has the write, or patience is at its end."""
        if written is None:
            return
        began_s = self._clock.monotonic_s()
        standing = self.index.serving.now()
        while True:
            waited_s = self._clock.monotonic_s() - began_s
            if standing.uncovered or next_step(position_of(standing), written, waited_s, self._patience_s) != "wait":
                return
            self._clock.sleep(_POLL_S)
            standing = self.index.serving.now(self._clock.monotonic_s() - _SHARED_S)

    def _gone(self, page: Page, found: DatabaseRead) -> dict[str, Hit | None]:
        """Hits of the page whose rows the user no longer has."""
        known = found.documents.keys() | found.unfinished | found.held
        return {hit.doc_id: None for hit in page.hits if hit.doc_id not in known}

    def _supplement(self, ask: Callable[[DatabaseDocuments], DatabaseRead]) -> DatabaseRead | None:
        """The database's answer; None when there is none to be had: the index's must do."""
        if self._database is None:
            return None
        try:
            return ask(self._database)
        except (Transient, BackPressure, InvalidRecord):
            return None

    def _instead(self, ask: Callable[[DatabaseDocuments], DatabaseRead], away: LyrebirdError) -> DatabaseRead:
        if self._database is None:
            raise away
        try:
            return ask(self._database)
        except InvalidRecord as cannot:
            # Nothing is wrong with what was asked: only the index, which is away, can tell.
            raise away from cannot

    def _page(
        self,
        hits: tuple[Hit, ...],
        full: bool,
        others: Mapping[str, Hit | None],
        seen: CompleteTo,
        size: int,
        after: str | None,
    ) -> Page:
        moment = ListPlace.parse(after) if after else None
        target = self.index.target
        shown, more = merged(hits, full, others, target.search.time, size, moment, target.time_step_us)
        return Page(shown, more, self._told(seen))

    def _stale(self, page: Page) -> Page:
        return Page(page.hits, page.next, self._told(replace(page.seen, fresh=False)))

    def _told(self, seen: CompleteTo) -> CompleteTo:
        if self._metrics is not None:
            self._metrics.count("lyrebird_reads_total", kind=seen.origin if seen.fresh else f"{seen.origin} stale")
        return seen


def _may_have(read: DatabaseRead, written: str | None) -> bool:
    """False when the database is known to lack the write: a server that took over, or GTIDs that nobody committed."""
    return written is None or read.position is None or covers(read.position, written)


def _covers(seen: CompleteTo, written: str) -> bool:
    """A write may be one of a table that the position does not speak for: then nobody can tell."""
    return not seen.uncovered and covers(seen.position, written)
