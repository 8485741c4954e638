"""Definition of a source in a deployment file: section `sources`, one entry for each database server captured."""

from __future__ import annotations

import functools
import zlib
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, SecretStr

from include.errors import SettingsError
from include.policy.policy import Policy, PolicyVerdict, SourceDeclaration, TableFilters
from include.record.version import MAX_EPOCH
from include.settings.deployment import Deployment, Strict
from include.settings.secret import Secret

__all__ = ["SourceDefinition", "declared_sources", "load_source"]


class SourceDefinition(Strict):
    """One server and what is captured of it. Table names are `table` or `database.table`."""

    host: str = Field(description="the server's address")
    port: int = Field(ge=1, le=65535, description="its port")
    fallbacks: list[Annotated[str, Field(pattern=r"^[^\s]+:[0-9]{1,5}$")]] = Field(
        default=[], description="`host:port` of servers that may stand in for it, by GTID: its replicas"
    )
    behind_wait_s: float = Field(
        default=300, ge=0, description="a server that lacks transactions which capture has is waited for so long"
    )
    tls: Literal["off", "preferred", "required", "verified"] = Field(
        default="preferred", description="verified: the server's certificate must be good for its host"
    )
    tls_ca: str = Field(default="", description="file of the certificates that are trusted; default: the system's")
    user: str = Field(
        description="account with REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR, SELECT, REFERENCES, TRIGGER"
    )
    password: Secret = Field(description="its password")
    databases: list[str] = Field(min_length=1, description="databases that are captured")
    filter_policy: PolicyVerdict = Field(
        default="accept", description="whether tables pass that no entry of `filter` names"
    )
    filter: TableFilters = Field(
        default={}, description="table or pattern -> passed or dropped, without which columns, behind which masks"
    )
    mask_salt: Secret = Field(default=SecretStr(""), description="goes before every value that is hashed")
    partition_by: dict[str, list[str]] = Field(
        default={}, description="table -> columns whose values choose the partition, instead of the key"
    )
    partitions: int = Field(default=4, ge=1, le=256, description="partitions of a change topic when it is made")
    table_partitions: dict[str, Annotated[int, Field(ge=1, le=256)]] = Field(
        default={}, description="table -> partitions, where they differ"
    )
    epoch: int = Field(default=0, ge=0, le=MAX_EPOCH, description="raised for a new lineage of versions only")
    server_id: int | None = Field(default=None, ge=1, le=2**32 - 1, description="as replica; default: from the name")
    group_ms: int = Field(default=100, ge=0, le=10_000, description="longest wait for more transactions of one commit")
    group_bytes: int = Field(default=4_000_000, ge=1, description="most bytes of records gathered in one commit")
    memory_bytes: int = Field(
        default=67_108_864, ge=1, description="a source transaction beyond this waits for its commit on disk"
    )
    spill_folder: str = Field(default="", description="where it waits; default: the system's folder for such files")
    queries: bool = Field(
        default=False,
        description="the statement's text, where the server logs it; it may hold what `filter` keeps back",
    )
    unreadable: Literal["table", "source"] = Field(
        default="table", description="what stops when rows cannot be read: their table (set aside), or the source"
    )
    heartbeat_s: float = Field(default=0.5, gt=0, le=30, description="the server says so often that it is idle")
    silence_s: float = Field(default=10, gt=0, description="without a word for so long the connection is made anew")
    snapshot_workers: int = Field(default=4, ge=1, le=64, description="connections that read tables side by side")
    snapshot_rows_per_s: int = Field(
        default=25_000, ge=0, description="most rows a second that snapshots read, to spare the server; 0: no limit"
    )
    snapshot_chunk_rows: int = Field(default=20_000, ge=1, description="most rows of one chunk of a snapshot")
    snapshot_chunk_bytes: int = Field(
        default=8_000_000, ge=1, description="most bytes of one, by the server's own estimate of a row"
    )
    prepared_wait_s: float = Field(
        default=60, ge=0, description="a first snapshot waits so long for the end of prepared XA transactions"
    )

    _origin: SourceDeclaration = PrivateAttr(default_factory=SourceDeclaration)

    @functools.cached_property
    def policy(self) -> Policy:
        """Filters and masks, resolved; raises `SettingsError` for contradictions (a loaded source has none)."""
        return Policy.declared(
            self.filter_policy,
            self.filter,
            self.databases,
            self.mask_salt.get_secret_value(),
            self.partition_by,
            self._origin,
        )

    def captures(self, database: str, table: str) -> bool:
        """Whether rows of this table are captured."""
        return self.policy.of(database, table).passes

    def partition_columns(self, database: str, table: str) -> tuple[str, ...]:
        """Columns that choose the partition; empty = the key."""
        return self.policy.partition_columns(database, table)

    def partitions_of(self, database: str, table: str) -> int:
        """Partitions that the table's topic is made with."""
        return self.table_partitions.get(f"{database}.{table}", self.table_partitions.get(table, self.partitions))

    def replica_id(self, name: str) -> int:
        """The id that this capture has as a replica: declared, else the same for a source's name everywhere."""
        return self.server_id or 0x4000_0000 | zlib.crc32(name.encode()) >> 2

    def declared_at(self, origin: SourceDeclaration) -> Self:
        """The same source, whose errors and explanations name file and line; raises as `policy` does."""
        found = self.model_copy()
        found._origin = origin  # noqa: SLF001 - an instance of this class
        # Raises now, not at the first question.
        _ = found.policy
        return found

    @property
    def place(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


def declared_sources(deployment: Deployment) -> dict[str, SourceDefinition]:
    """All sources by name; raises `SettingsError` with file, line and path of what is wrong in one of them."""
    sources = deployment.section("sources", SourceDefinition)
    return {
        name: source.declared_at(SourceDeclaration(deployment, ("sources", name))) for name, source in sources.items()
    }


def load_source(deployment: Deployment, name: str) -> SourceDefinition:
    """The source of that name; raises `SettingsError` with the names that there are."""
    sources = declared_sources(deployment)
    if name not in sources:
        raise SettingsError(
            "no such source",
            source=name,
            allowed=sorted(sources),
            file=str(deployment.folder),
            fix="Declare it in section `sources`, or give one of these with --source.",
        )
    return sources[name]
