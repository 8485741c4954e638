"""Section `audits` of the deployment: which proofs the nightly DAG runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from include.index.definition import IndexDefinition, declared_indexes
from include.index.identity import index_id
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["AuditDefinition", "SearchAuditSpec", "declared_audits", "search_audit", "search_audits"]

SECTION = "audits"


class AuditDefinition(Strict):
    """One audit. `kind` search: the topic of an index against the index."""

    kind: Literal["search"] = "search"
    index: str = Field(description="name of the entry in section `indexes`")


@dataclass(frozen=True)
class SearchAuditSpec:
    """A search audit of one topic of an index. `name` is the audit's, with `/<topic>` where the index has several."""

    name: str
    alias: str
    index: IndexDefinition
    topic: str

    @property
    def entity(self) -> str:
        """Name of the body in the topic's documents."""
        return self.index.topics[self.topic].entity

    def index_id(self, doc_id: str) -> str:
        """The `_id` of a document of the topic."""
        return index_id(self.topic, doc_id) if len(self.index.topics) > 1 else doc_id


def declared_audits(deployment: Deployment) -> dict[str, AuditDefinition]:
    """All entries; raises `SettingsError` when one names an index that is not declared."""
    found = deployment.section(SECTION, AuditDefinition)
    known = declared_indexes(deployment)
    for name, audit in found.items():
        if audit.index not in known:
            raise unknown_name(deployment, (SECTION, name, "index"), audit.index, "indexes")
    return found


def search_audits(deployment: Deployment, name: str) -> list[SearchAuditSpec]:
    """The audit of that name, one for each topic of its index; or that of the topic of that name, or `<name>/<topic>`.

    Raises `SettingsError` with the names that there are.
    """
    indexes = declared_indexes(deployment)
    specs: dict[str, list[SearchAuditSpec]] = {}
    for audit, definition in declared_audits(deployment).items():
        index = indexes[definition.index]
        for topic in sorted(index.topics):
            full = audit if len(index.topics) == 1 else f"{audit}/{topic}"
            specs.setdefault(audit, []).append(
                SearchAuditSpec(name=full, alias=definition.index, index=index, topic=topic)
            )
    if name in specs:
        return specs[name]
    for each in itertools.chain.from_iterable(specs.values()):
        if name in (each.name, each.topic):
            return [each]
    raise unknown_name(deployment, (SECTION,), name, SECTION)


def search_audit(deployment: Deployment, name: str) -> SearchAuditSpec:
    """The same for an index of one topic, or one of its topics; raises `SettingsError` for one of several."""
    found = search_audits(deployment, name)
    if len(found) != 1:
        raise deployment.error(
            (SECTION,), "the audit is of several topics", name=name, allowed=[each.name for each in found]
        )
    return found[0]
