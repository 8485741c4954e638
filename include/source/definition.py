"""What a deployment file says of a source: section `sources`, one entry for each database server captured."""

from __future__ import annotations

import fnmatch
import zlib
from typing import Annotated

from pydantic import Field, StringConstraints

from include.errors import SettingsError
from include.record.version import MAX_EPOCH
from include.settings.deployment import Deployment, Strict

__all__ = ["SourceDefinition", "load_source"]

Pattern = Annotated[str, StringConstraints(pattern=r"^[^.]+(\.[^.]+)?$")]


class SourceDefinition(Strict):
    """One server and what is captured of it. Table names are `table` or `database.table`; `*` and `?` are wildcards."""

    host: str = Field(description="the server's address")
    port: int = Field(ge=1, le=65535, description="its port")
    user: str = Field(description="account with REPLICATION SLAVE, BINLOG MONITOR and SELECT")
    password: str = Field(repr=False, description="its password")
    databases: list[str] = Field(min_length=1, description="databases that are captured")
    tables: list[Pattern] = Field(default=["*"], min_length=1, description="tables of them that are captured")
    exclude: list[Pattern] = Field(default=[], description="tables that are not, whatever `tables` says")
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
    group_bytes: int = Field(default=1_000_000, ge=1, description="most bytes of row events gathered in one commit")
    transaction_bytes: int = Field(
        default=268_435_456, ge=1, description="largest source transaction that is taken; a larger one stops the source"
    )
    heartbeat_s: float = Field(default=0.5, gt=0, le=30, description="the server says so often that it is idle")
    silence_s: float = Field(default=10, gt=0, description="without a word for so long the connection is made anew")

    def captures(self, database: str, table: str) -> bool:
        """Whether rows of this table are captured."""
        if database not in self.databases:
            return False
        return _matches(self.tables, database, table) and not _matches(self.exclude, database, table)

    def partition_columns(self, database: str, table: str) -> tuple[str, ...]:
        """Columns that choose the partition; empty = the key."""
        found = self.partition_by.get(f"{database}.{table}", self.partition_by.get(table, []))
        return tuple(found)

    def partitions_of(self, database: str, table: str) -> int:
        """Partitions that the table's topic is made with."""
        return self.table_partitions.get(f"{database}.{table}", self.table_partitions.get(table, self.partitions))

    def replica_id(self, name: str) -> int:
        """The id that this capture has as a replica: declared, else the same for a source's name everywhere."""
        return self.server_id or 0x4000_0000 | zlib.crc32(name.encode()) >> 2

    @property
    def place(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


def load_source(deployment: Deployment, name: str) -> SourceDefinition:
    """The source of that name; raises `SettingsError` with the names that there are."""
    sources = deployment.section("sources", SourceDefinition)
    if name not in sources:
        raise SettingsError(
            "no such source",
            source=name,
            allowed=sorted(sources),
            file=str(deployment.folder),
            fix="Declare it in section `sources`, or give one of these with --source.",
        )
    return sources[name]


def _matches(patterns: list[str], database: str, table: str) -> bool:
    return any(fnmatch.fnmatchcase(f"{database}.{table}" if "." in pattern else table, pattern) for pattern in patterns)
