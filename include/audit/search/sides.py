"""The port of a search audit's two sides: the servers of a deployment (`platform`), or doubles of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from include.audit.definition import SearchAuditSpec
from include.audit.search.bounds import AuditBounds
from include.audit.search.cut import AuditCut
from include.audit.search.expected import ExpectedSide
from include.audit.search.repair import Writing
from include.audit.search.scrub import StoredDocuments
from include.audit.search.views.range_count import IndexView
from include.audit.search.views.state_view import StateView
from include.clock import Clock
from include.index.server.port import SearchIndex
from include.log.ports import LogReader, TopicAdmin

__all__ = ["AuditSides"]


class AuditSides(Protocol):
    """The two sides of an audit, on whatever they stand."""

    index: SearchIndex
    admin: TopicAdmin
    reader: LogReader
    clock: Clock

    def states(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> StateView:
        """A moment of a concrete index, for a digest."""

    def ranges(self, name: str, spec: SearchAuditSpec, bounds: AuditBounds) -> IndexView:
        """A moment of a concrete index, for counts."""

    def documents(self, name: str, spec: SearchAuditSpec) -> StoredDocuments:
        """Whole documents of a concrete index."""

    def writing(self, name: str, spec: SearchAuditSpec, at: AuditCut) -> Writing:
        """The servers and tools with which a repair writes to a concrete index."""

    def expected(self, spec: SearchAuditSpec, at: AuditCut) -> ExpectedSide:
        """The documents that the index should hold, by the topic below the cut."""

    def declared(self, spec: SearchAuditSpec) -> Mapping[str, Any]:
        """The mapping that the deployment declares for the index."""

    def undeclared(self, name: str, spec: SearchAuditSpec) -> Mapping[str, int]:
        """Living documents of a concrete index by topic, without those of topics that it declares."""
