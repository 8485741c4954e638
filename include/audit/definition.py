"""Section `audits` of the deployment: which proofs the nightly DAG runs."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from include.index.definition import IndexDefinition, declared_indexes
from include.index.identity import index_id
from include.join.config.deployed import DeployedJoin, declared_joins
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = [
    "AuditDefinition",
    "SearchAuditSpec",
    "audit_names",
    "audited_index",
    "audited_indexes",
    "declared_audits",
    "join_audits",
    "search_audit",
    "search_audits",
]

SECTION = "audits"


class AuditDefinition(Strict):
    """One audit. `kind` search: the topics of an index against the index; join: a join's inputs against its topic."""

    kind: Literal["search", "join"] = "search"
    """search: the topics of an index against the index; join: a join's inputs against its topic."""
    index: str | None = Field(default=None, description="of kind search: name of the entry in section `indexes`")
    join: str | None = Field(default=None, description="of kind join: name of the entry in section `joins`")

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if (self.index is None) is (self.kind == "search") or (self.join is None) is (self.kind == "join"):
            raise ValueError("an audit of kind search has an `index`, one of kind join a `join`, and nothing else")
        return self


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
    """All entries; raises `SettingsError` when one names an index or a join that is not declared."""
    audits, joins = deployment.section(SECTION, AuditDefinition), declared_joins(deployment)
    audited_indexes(deployment)
    for name, audit in audits.items():
        if audit.join is not None and audit.join not in joins:
            raise unknown_name(deployment, (SECTION, name, "join"), audit.join, "joins")
    return audits


def audit_names(deployment: Deployment, kind: Literal["search", "join"]) -> list[str]:
    """The names of the audits of one kind, whether or not they are declared well; no model is needed."""
    names = deployment.names(SECTION)
    return [name for name in names if (deployment.filled(SECTION, name, "kind") or "search") == kind]


def audited_indexes(deployment: Deployment) -> dict[str, str]:
    """Search audit → the index that it is about; raises `SettingsError` when that is not declared."""
    audits, indexes = deployment.section(SECTION, AuditDefinition), declared_indexes(deployment)
    found = {name: audit.index for name, audit in audits.items() if audit.index is not None}
    for name, index in found.items():
        if index not in indexes:
            raise unknown_name(deployment, (SECTION, name, "index"), index, "indexes")
    return found


def audited_index(deployment: Deployment, audit: str) -> str:
    """The index that a search audit is about; raises `SettingsError` where none of that name is declared."""
    indexes = audited_indexes(deployment)
    if audit not in indexes:
        raise unknown_name(deployment, (SECTION,), audit, SECTION)
    return indexes[audit]


def join_audits(deployment: Deployment, names: Collection[str] = ()) -> dict[str, DeployedJoin]:
    """Join audit → the join that it is about; those of `names`, or all. A join's own name stands for its audit.

    Raises:
        SettingsError: there is none of a name.
    """
    joins = declared_joins(deployment)
    declared = {name: joins[each.join] for name, each in declared_audits(deployment).items() if each.join is not None}
    chosen = {}
    for name in names or declared:
        if name not in declared and name not in joins:
            raise unknown_name(deployment, (SECTION,), name, SECTION)
        chosen[name] = declared[name] if name in declared else joins[name]
    return chosen


def search_audits(deployment: Deployment, name: str) -> list[SearchAuditSpec]:
    """The audit of that name, one for each topic of its index; or that of the topic of that name, or `<name>/<topic>`.

    Raises `SettingsError` with the names that there are.
    """
    indexes = declared_indexes(deployment)
    specs: dict[str, list[SearchAuditSpec]] = {}
    for audit, alias in audited_indexes(deployment).items():
        index = indexes[alias]
        for topic in sorted(index.topics):
            full = audit if len(index.topics) == 1 else f"{audit}/{topic}"
            specs.setdefault(audit, []).append(SearchAuditSpec(name=full, alias=alias, index=index, topic=topic))
    if name in specs:
        return specs[name]
    for each in itertools.chain.from_iterable(specs.values()):
        if name in (each.name, each.topic):
            return [each]
    raise unknown_name(deployment, (SECTION,), name, SECTION)


def search_audit(deployment: Deployment, name: str) -> SearchAuditSpec:
    """The same for an index of one topic, or one of its topics; raises `SettingsError` for one of several."""
    specs = search_audits(deployment, name)
    if len(specs) != 1:
        raise deployment.error(
            (SECTION,), "the audit is of several topics", name=name, allowed=[each.name for each in specs]
        )
    return specs[0]
