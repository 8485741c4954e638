"""Section `table_audits` of the deployment: which tables are proved to be their copies, and at what cost."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from include.document.definition import Replica
from include.errors import SettingsError
from include.settings.deployment import Deployment, Strict, unknown_name
from include.source.definition import SourceDefinition, declared_sources

__all__ = [
    "Against",
    "Of",
    "TableAudit",
    "audited_sources",
    "declared_table_audits",
    "only_source",
    "server_of",
    "table_audit",
    "tables_meant",
]

SECTION = "table_audits"
Against = Literal["lake", "topic"]
Of = Literal["database", "topic"]
"""What is right: of a lake table that is no copy of its database the topic tells whether capture is to blame."""


class TableAudit(Strict):
    """An audit of tables of one source."""

    source: str = Field(description="entry of `sources`")
    tables: tuple[str, ...] = Field(default=("*",), description="`database.table`, or patterns of them (`*`, `?`)")
    exclude: tuple[str, ...] = Field(default=(), description="patterns of tables that are left out")
    against: Against | None = Field(
        default=None, description="the lake's tables or the topics; default: the lake's where there are some"
    )
    read_from: Replica | None = Field(default=None, description="replica that is read instead of the source's server")
    connections: int = Field(default=2, ge=1, le=64, description="to the server, of one table at a time")
    rows_per_s: int = Field(default=400_000, ge=0, description="most rows a second that are hashed there; 0: no limit")
    busy_threads: int = Field(
        default=32, ge=0, description="no range is begun while the server has more threads at work; 0: no limit"
    )
    range_rows: int = Field(default=50_000, ge=100, description="rows of a range, which one snapshot has")
    whole_rows: int = Field(
        default=20_000_000, ge=0, description="most rows of a table whose key bounds no ranges; 0: no limit"
    )
    patience_s: float = Field(default=300, ge=0, description="capture is waited for so long")


def declared_table_audits(deployment: Deployment) -> dict[str, TableAudit]:
    """All entries; raises `SettingsError` when one names a source that is not declared."""
    audits = deployment.section(SECTION, TableAudit)
    sources = declared_sources(deployment)
    for name, audit in audits.items():
        if audit.source not in sources:
            raise unknown_name(deployment, (SECTION, name, "source"), audit.source, "sources")
    return audits


def audited_sources(deployment: Deployment) -> list[str]:
    """Sources that entries name, whether or not these are declared well."""
    named = (deployment.filled(SECTION, name, "source") for name in deployment.names(SECTION))
    return sorted({source for source in named if isinstance(source, str)})


def table_audit(deployment: Deployment, source: str) -> TableAudit:
    """The audit of a source: the declared one, else one by the defaults; raises `SettingsError` for no such source."""
    for audit in declared_table_audits(deployment).values():
        if audit.source == source:
            return audit
    if source not in declared_sources(deployment):
        raise unknown_name(deployment, ("sources",), source, "sources")
    return TableAudit(source=source)


def only_source(deployment: Deployment) -> str:
    """The source where there is one; raises `SettingsError` where there are several, or none."""
    sources = sorted(declared_sources(deployment))
    if len(sources) != 1:
        raise SettingsError("say which source is meant", allowed=sources, fix="--source NAME")
    return sources[0]


def tables_meant(audit: TableAudit, captured: Iterable[str]) -> list[str]:
    """Those of these tables, `database.table`, that an audit is of, sorted."""

    def matches(patterns: Iterable[str], name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, each) for each in patterns)

    return sorted(each for each in captured if matches(audit.tables, each) and not matches(audit.exclude, each))


def server_of(source: SourceDefinition, audit: TableAudit) -> SourceDefinition:
    """The source as the audit reads it: from its replica, where one is declared."""
    return source if audit.read_from is None else source.model_copy(update=audit.read_from.model_dump())
