"""What a person may ask of a source by a DAG's Params: checked here, and made into `lyrebird` commands.

Only the running capture writes a source's topics. So a snapshot is a request to it; only where none runs, a capture
is started that carries out the snapshot and ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from include.errors import SettingsError, Terminal

__all__ = [
    "LONGEST_SNAPSHOT_S",
    "SNAPSHOT_MODES",
    "SnapshotMode",
    "SnapshotRun",
    "capture_application",
    "refuse_unless_snapshotted",
]

SnapshotMode = Literal["auto", "request", "start", "anew"]
"""How a snapshot is taken:

auto: request when a capture runs, else start.
request: only through a running capture.
start: only when none runs, by one that ends; where the first snapshot is done, it reads the named tables again.
anew: as start, but all again from now on, as after a purged binlog.
"""
LONGEST_SNAPSHOT_S = 12 * 3600
"""How long a task waits for the answer to its request."""
SNAPSHOT_MODES: tuple[str, ...] = get_args(SnapshotMode)


def capture_application(source: str) -> str:
    """The name under which a source's capture is supervised, and of its run folder."""
    return f"capture-{source}"


@dataclass(frozen=True)
class SnapshotRun:
    """One snapshot that a person asks for.

    Attributes:
        tables: `database.table`, or the table alone; empty: all of the source.
    """

    source: str
    tables: tuple[str, ...]
    mode: SnapshotMode

    @classmethod
    def from_params(cls, params: Mapping[str, Any], sources: Collection[str]) -> SnapshotRun:
        """Read the Params `source`, `tables`, `mode`.

        Raises:
            SettingsError: a name is unknown, or a table is named twice, or is none.
        """
        source, mode = params["source"], params["mode"]
        tables = tuple(str(table).strip() for table in params.get("tables") or ())
        if source not in sources:
            raise SettingsError(
                "no such source", path="params.source", got=source, allowed=sorted(sources), fix="Choose one of them."
            )
        if mode not in SNAPSHOT_MODES:
            raise SettingsError(
                "no such mode", path="params.mode", got=mode, allowed=list(SNAPSHOT_MODES), fix="Choose one of them."
            )
        for table in tables:
            if not table or any(sign == "," or sign.isspace() for sign in table):
                raise SettingsError(
                    "not a table's name", path="params.tables", got=table, fix="Write one table an entry: orders."
                )
        if twice := sorted({table for table in tables if tables.count(table) > 1}):
            raise SettingsError("a table is named twice", path="params.tables", got=twice, fix="Name it once.")
        return cls(source, tables, mode)

    def way(self, *, capture_runs: bool) -> Literal["request", "start"]:
        """How to carry it out now.

        Raises:
            Terminal: the mode contradicts what runs.
        """
        if self.mode == "request" and not capture_runs:
            raise Terminal(
                "no capture runs that could answer a request",
                source=self.source,
                mode=self.mode,
                fix="Start the DAG source_replicate first, or choose the mode auto.",
            )
        if self.mode in {"start", "anew"} and capture_runs:
            raise Terminal(
                "a capture already runs, and a source has only one",
                source=self.source,
                mode=self.mode,
                fix="Choose the mode auto: the running capture then takes the snapshot.",
            )
        return "request" if capture_runs else "start"

    def request_arguments(self, request_id: str) -> list[str]:
        """Of `lyrebird`: ask the running capture, wait for its answer. The same id is carried out once."""
        return [
            "capture",
            "snapshot",
            "--source",
            self.source,
            *self._tables(),
            "--id",
            request_id,
            "--wait",
            "--timeout",
            str(LONGEST_SNAPSHOT_S),
        ]

    def start_arguments(self) -> list[str]:
        """Of `lyrebird`: a capture that takes the snapshot and ends."""
        anew = ["--anew"] if self.mode == "anew" else []
        return ["capture", "run", "--source", self.source, "--snapshot", *anew, *self._tables()]

    def _tables(self) -> list[str]:
        return ["--tables", ",".join(self.tables)] if self.tables else []


def refuse_unless_snapshotted(source: str, status: Mapping[str, Any]) -> None:
    """Replication starts from a snapshot.

    Args:
        source: the source.
        status: what `lyrebird capture status --source S --json` says.

    Raises:
        Terminal: this source has none yet.
    """
    if status.get("snapshot") != "done":
        raise Terminal(
            "this source has no complete snapshot yet",
            source=source,
            snapshot=status.get("snapshot"),
            fix="Start the DAG source_snapshot for it; it starts the replication afterwards.",
        )
