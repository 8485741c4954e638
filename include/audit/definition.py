"""Section `audits` of the deployment: which proofs the nightly DAG runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from include.index.definition import IndexDefinition, declared_indexes
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["AuditDefinition", "SearchAuditSpec", "declared_audits", "search_audit"]

SECTION = "audits"


class AuditDefinition(Strict):
    """One audit. `kind` search: the topic of an index against the index."""

    kind: Literal["search"] = "search"
    index: str = Field(description="name of the entry in section `indexes`")


class SearchAuditSpec(Strict):
    """A search audit with what it looks at."""

    name: str
    alias: str
    index: IndexDefinition


def declared_audits(deployment: Deployment) -> dict[str, AuditDefinition]:
    """All entries; raises `SettingsError` when one names an index that is not declared."""
    found = deployment.section(SECTION, AuditDefinition)
    known = declared_indexes(deployment)
    for name, audit in found.items():
        if audit.index not in known:
            raise unknown_name(deployment, (SECTION, name, "index"), audit.index, "indexes")
    return found


def search_audit(deployment: Deployment, name: str) -> SearchAuditSpec:
    """The audit of that name, or of the topic of that name; raises `SettingsError` with the names that there are."""
    found, indexes = declared_audits(deployment), declared_indexes(deployment)
    if name in found:
        return SearchAuditSpec(name=name, alias=found[name].index, index=indexes[found[name].index])
    for audit, definition in found.items():
        if indexes[definition.index].topic == name:
            return SearchAuditSpec(name=audit, alias=definition.index, index=indexes[definition.index])
    raise unknown_name(deployment, (SECTION,), name, SECTION)
