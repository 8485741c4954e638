"""Proves a generation before readers follow it: against the one that serves, or against the topics when none does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from include.audit.definition import SearchAuditSpec
from include.audit.search.audit import audit_search
from include.audit.search.bounds import AuditBounds, Window
from include.audit.search.generations import ALL, Equality, equality
from include.audit.search.platform import server_sides
from include.audit.search.report import SearchReport
from include.audit.search.views.elasticsearch.moment import counting_client
from include.audit.search.views.elasticsearch.states import ElasticsearchStates
from include.index.deployed import DeployedIndex
from include.index.identity import index_id
from include.index.progress.document import read_progress
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.port import IndexInfo
from include.settings.connections import Elasticsearch

__all__ = ["GenerationComparison", "prove"]


@dataclass(frozen=True)
class GenerationComparison:
    """What a comparison found, by topic."""

    equalities: Sequence[Equality] = ()
    audits: Sequence[SearchReport] = ()

    @property
    def findings(self) -> int:
        """Documents that are not as they should be. Those that the topic itself lacks are no fault of a generation."""
        return sum(each.findings for each in self.equalities) + sum(each.differing_sides for each in self.audits)

    def lines(self) -> list[str]:
        """For people."""
        told = [line for each in self.equalities for line in each.lines()]
        return [*told, *(line for each in self.audits for line in each.lines())]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "findings": self.findings,
            "equality": [each.to_json() for each in self.equalities],
            "audit": [each.to_json() for each in self.audits],
        }


def prove(on: DeployedIndex, info: IndexInfo, serving: IndexInfo | None) -> GenerationComparison:
    """Compare index `info` with the one that serves, else with its topics; reads only, and may run under load.

    Raises `Terminal` and `Transient` as the audits do.
    """
    if serving is None:
        return GenerationComparison(audits=_audited(on, info))
    if serving.uuid == info.uuid:
        return GenerationComparison()
    settings = on.deployment.one("elasticsearch", Elasticsearch)
    index = ElasticsearchIndex(settings, counting_client(settings))
    try:
        return GenerationComparison(
            equalities=[_equality(on, index, topic, info, serving) for topic in sorted(on.definition.topics)]
        )
    finally:
        index.close()


def _equality(
    on: DeployedIndex, index: ElasticsearchIndex, topic: str, info: IndexInfo, serving: IndexInfo
) -> Equality:
    everything = AuditBounds(dict.fromkeys(on.ends(topic), ALL))
    to_id = functools.partial(index_id, topic) if len(on.definition.topics) > 1 else str
    for each in (info, serving):
        index.refresh(each.name)
    views = [ElasticsearchStates(index, each.name, topic, everything, to_id) for each in (info, serving)]
    try:
        return equality(
            topic,
            (info.name, views[0]),
            (serving.name, views[1]),
            lambda: (_settled(index, info, topic), _settled(index, serving, topic)),
            everywhere=on.definition.topics[topic].routing is not None,
        )
    finally:
        for view in views:
            view.close()


def _settled(index: ElasticsearchIndex, info: IndexInfo, topic: str) -> Window:
    progress = read_progress(index, info, topic)
    return progress.acked if progress else {}


def _audited(on: DeployedIndex, info: IndexInfo) -> list[SearchReport]:
    definition = on.definition
    with server_sides(on.deployment) as sides:
        return [
            audit_search(SearchAuditSpec(info.name, info.name, definition, topic), sides, wait_s=60.0)
            for topic in sorted(definition.topics)
        ]
