"""What a person may ask of a source by a DAG's Params: checked here, and made into `lyrebird` commands.

Only the running capture writes a source's topics. So a snapshot is a request to it; only where none runs, a capture
is started that carries out the snapshot and ends.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from include.errors import SettingsError, Terminal
from include.source.snapshot.condition import Condition, ConditionError, all_hold

__all__ = [
    "LONGEST_SNAPSHOT_S",
    "SNAPSHOT_MODES",
    "SnapshotMode",
    "SnapshotRun",
    "capture_application",
    "dates_condition",
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
_COLUMN: Final = re.compile(r"[A-Za-z0-9_$]+")


def capture_application(source: str) -> str:
    """The name under which a source's capture is supervised, and of its run folder."""
    return f"capture-{source}"


@dataclass(frozen=True)
class SnapshotRun:
    """One snapshot that a person asks for.

    Attributes:
        tables: `database.table`, or the table alone; empty: all of the source.
        where: `Condition` that chooses their rows; "": all.
        rows_per_s: most rows read in a second, 0: no limit; None: as the source declares.
        plan: say what would be read, and read nothing.
    """

    source: str
    tables: tuple[str, ...]
    mode: SnapshotMode
    where: str = ""
    rows_per_s: int | None = None
    plan: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any], sources: Collection[str]) -> SnapshotRun:
        """Read the Params of the DAG source_snapshot, by their names; `source` and `mode` must be there.

        Raises:
            SettingsError: a name is unknown, or a table is named twice, or is none; rows are chosen of no named table,
                or by half a choice of dates, or by a condition that is none.
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
        where = all_hold(str(params.get("where") or ""), _dates(params))
        if where and not tables:
            raise SettingsError(
                "a condition that holds for which tables?",
                path="params.tables",
                where=where,
                fix="Name the tables that have its columns.",
            )
        try:
            Condition.parse(where)
        except ConditionError as refused:
            details = {**refused.details, "path": "params.where"}
            raise SettingsError(refused.message, fix=refused.fix, **details) from refused
        rows_per_s = params.get("rows_per_s")
        return cls(
            source, tables, mode, where, None if rows_per_s is None else int(rows_per_s), bool(params.get("plan"))
        )

    def way(self, *, capture_runs: bool) -> Literal["request", "start", "plan"]:
        """How to carry it out now.

        Raises:
            Terminal: the mode contradicts what runs, or only a running capture reads such a choice.
        """
        if self.plan:
            return "plan"
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
        if not capture_runs and (self.where or self.rows_per_s is not None):
            raise Terminal(
                "no capture runs that could read a choice of rows, or at a rate of its own",
                source=self.source,
                mode=self.mode,
                fix="Start the DAG source_replicate first; or leave out condition, dates and rate.",
            )
        return "request" if capture_runs else "start"

    def request_arguments(self, request_id: str) -> list[str]:
        """Of `lyrebird`: ask the running capture, wait for its answer. The same id is carried out once."""
        return [
            "capture",
            "snapshot",
            "--source",
            self.source,
            *self._chosen(),
            "--id",
            request_id,
            "--wait",
            "--timeout",
            str(LONGEST_SNAPSHOT_S),
        ]

    def plan_arguments(self) -> list[str]:
        """Of `lyrebird`: say what would be read."""
        return ["capture", "snapshot", "--source", self.source, *self._chosen(), "--plan"]

    def start_arguments(self) -> list[str]:
        """Of `lyrebird`: a capture that takes the snapshot and ends."""
        anew = ["--anew"] if self.mode == "anew" else []
        return ["capture", "run", "--source", self.source, "--snapshot", *anew, *self._tables()]

    def _tables(self) -> list[str]:
        return ["--tables", ",".join(self.tables)] if self.tables else []

    def _chosen(self) -> list[str]:
        where = ["--where", self.where] if self.where else []
        rate = [] if self.rows_per_s is None else ["--rows-per-s", str(self.rows_per_s)]
        return [*self._tables(), *where, *rate]


def dates_condition(column: str, first: str, until: str, path: str = "params.date_{}") -> str:
    """The condition for rows of `first` (included) to `until` (excluded), days in UTC, by a column; "" without any.

    Raises `SettingsError` for half a choice; `path` says where `column`, `from` and `until` stand.
    """
    days = {"from": first, "until": until}
    if not column and not any(days.values()):
        return ""
    if not _COLUMN.fullmatch(column):
        raise SettingsError(
            "dates of which column?",
            path=path.format("column"),
            got=column,
            fix="Name a date or time column: created.",
        )
    if not any(days.values()):
        raise SettingsError("no date is given", path=path.format("from"), column=column, fix="Give one, or both.")
    for name, day in days.items():
        try:
            day and datetime.date.fromisoformat(day)
        except ValueError:
            raise SettingsError("not a date", path=path.format(name), got=day, fix="Write YYYY-MM-DD.") from None
    if all(days.values()) and first >= until:
        raise SettingsError(
            "no day lies between these dates", path=path.format("until"), got=[first, until], fix="Put it later."
        )
    return " AND ".join(f"`{column}` {sign} '{day}'" for sign, day in ((">=", first), ("<", until)) if day)


def _dates(params: Mapping[str, Any]) -> str:
    column, first, until = (str(params.get(f"date_{name}") or "").strip() for name in ("column", "from", "until"))
    return dates_condition(column, first, until)


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
