"""Checks what a person asks of a source by a DAG's Params, and makes `lyrebird` commands of it.

Only the running capture writes a source's topics. So a snapshot is a request to it; only where none runs, a capture
is started that carries out the snapshot and ends.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from include.errors import SettingsError, Terminal
from include.settings.run import DATE, NULL, RunParams, knob
from include.source.snapshot.condition import Condition, ConditionError, all_hold

__all__ = [
    "LONGEST_SNAPSHOT_S",
    "DateColumn",
    "FirstDay",
    "ReplicationRun",
    "SnapshotMode",
    "SnapshotRun",
    "TableName",
    "UntilDay",
    "Where",
    "capture_application",
    "dates_condition",
    "refuse_unless_snapshotted",
    "rows_condition",
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
TableName = Annotated[str, Field(pattern=r"^[^,\s]+$")]
Where = Annotated[
    str, knob("Only rows of the tables named for which this holds: `id > 7 AND state IN ('new')`.", title="Condition")
]
DateColumn = Annotated[
    str,
    knob(
        "A date or time column of the tables named: only rows of the days below.",
        option="--column",
        schema={"pattern": "^[A-Za-z0-9_$]*$"},
    ),
]
FirstDay = Annotated[str, knob("First day, in UTC.", title="From", option="--since", schema=DATE)]
UntilDay = Annotated[str, knob("The day after the last one.", title="Until", option="--until", schema=DATE)]
_COLUMN: Final = re.compile(r"[A-Za-z0-9_$]+")


def capture_application(source: str) -> str:
    """The name under which a source's capture is supervised, and of its run folder."""
    return f"capture-{source}"


class ReplicationRun(RunParams):
    """One capture that a person starts."""

    source: str = knob("The source of the deployment files that is captured.", among="source")
    unless_running: bool = knob(
        "Do nothing when its capture already runs, instead of refusing.", False, title="Unless it runs"
    )


class SnapshotRun(RunParams):
    """One snapshot that a person asks for."""

    source: str = knob("The source of the deployment files whose tables are copied.", among="source")
    tables: tuple[TableName, ...] = knob(
        "Names of captured tables, one an entry; none means all of the source.", (), schema=NULL
    )
    where: Where = ""
    date_column: DateColumn = ""
    date_from: FirstDay = ""
    date_until: UntilDay = ""
    rows_per_s: int | None = knob(
        "At most so many are read, so that the server is left room; 0: no limit. Default: as declared.",
        None,
        title="Rows a second",
        ge=0,
    )
    plan: bool = knob("Only say what would be read.", False, option="--dry-run", before=("--plan",))
    mode: SnapshotMode = knob(
        "auto: ask the running capture, or start one; request: only ask; start: only when none runs; "
        "anew: start one that reads all again from now on, as after a purged binlog.",
        "auto",
    )

    @property
    def condition(self) -> str:
        """For the rows that are read; raises as `rows_condition`."""
        return rows_condition(self.tables, self.where, self.date_column, self.date_from, self.date_until)

    def way(self, *, capture_runs: bool, down_owner: str | None = None) -> Literal["request", "start", "plan"]:
        """Decides how to carry it out now.

        Args:
            capture_runs: whether there is one that could answer.
            down_owner: the task (dag|run|task|map_index) of one that only waits for its next slow try, after restarts
                that did not help; None: there is no such.

        Raises:
            Terminal: the mode contradicts what runs, only a running capture reads such a choice, or it is down:
                nobody knows when it would answer.
        """
        if self.plan:
            return "plan"
        if down_owner is not None:
            raise Terminal(
                "capture is down, and waits for its next try",
                source=self.source,
                mode=self.mode,
                owner=down_owner,
                fix="Mark that run as failed, which ends the wait; two minutes later clear this task."
                if self.mode in {"start", "anew"}
                else f"Mend what `lyrebird logs {capture_application(self.source)}` tells, and clear that run's task "
                "capture, which tries it at once; when it runs, clear this task.",
            )
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
        if not capture_runs and (self.condition or self.rows_per_s is not None):
            raise Terminal(
                "no capture runs that could read a choice of rows, or at a rate of its own",
                source=self.source,
                mode=self.mode,
                fix="Start the DAG source_replicate first; or leave out condition, dates and rate.",
            )
        return "request" if capture_runs else "start"

    def request_arguments(self, request_id: str) -> list[str]:
        """Of `lyrebird`: ask the running capture, wait for its answer. The same id is carried out once."""
        return [*self._asks(), "--id", request_id, "--wait", "--timeout", str(LONGEST_SNAPSHOT_S)]

    def plan_arguments(self) -> list[str]:
        """Of `lyrebird`: say what would be read."""
        return [*self._asks(), "--dry-run"]

    def start_arguments(self) -> list[str]:
        """Of `lyrebird`: a capture that takes the snapshot and ends."""
        anew = ["--anew"] if self.mode == "anew" else []
        return ["capture", "run", *self.words("source"), "--snapshot", *anew, *self._tables()]

    def _tables(self) -> list[str]:
        return ["--tables", ",".join(self.tables)] if self.tables else []

    def _asks(self) -> list[str]:
        where = ["--where", self.condition] if self.condition else []
        return ["capture", "snapshot", *self.words("source"), *self._tables(), *where, *self.words("rows_per_s")]


def rows_condition(tables: Sequence[str], where: str, column: str, first: str, until: str) -> str:
    """The condition for the rows that `where` and days choose of tables; "" for all rows.

    Raises:
        SettingsError: rows are chosen of no named table, by half a choice of dates, or by a condition that is none.
    """
    chosen = all_hold(where, dates_condition(column, first, until))
    if chosen and not tables:
        raise SettingsError(
            "a condition that holds for which tables?",
            path="params.tables",
            where=chosen,
            fix="Name the tables that have its columns.",
        )
    try:
        Condition.parse(chosen)
    except ConditionError as refused:
        details = {**refused.details, "path": "params.where"}
        raise SettingsError(refused.message, fix=refused.fix, **details) from refused
    return chosen


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
