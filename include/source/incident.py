"""What a person must know of a capture that runs or has stopped: told once each, by mail, where it is supervised.

Tables set aside or in want of rows stand in capture's own state, so in the log. A short purge horizon and a long
wait do not: they are kept in the run folder, so that a restart gives them no new id. What ends capture has an id for
each end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from include.clock import Clock, iso
from include.errors import Fenced, LyrebirdError, Terminal
from include.metrics.progress import RunFolder
from include.source.database.purge import Horizon
from include.source.state.capture_state import CaptureState, TableSetAside

__all__ = ["CaptureIncident", "CaptureIncidents", "IncidentKind", "incidents_of", "next_command"]

IncidentKind = Literal["aside", "orphans", "purge", "prepared", "waiting", "fenced", "stopped"]
"""aside: a table's rows cannot be read; orphans: a table may lack changes by cascade; purge: the server soon purges
what capture still needs; prepared: an XA transaction has been prepared for an hour, and its binlog is needed until it
ends; waiting: a server that capture needs has been away for five minutes; fenced: another capture of the source has
taken over; stopped: capture has ended for a cause that a restart does not mend. The last two end the process."""

_KEPT: Final = "incidents.json"
# Once told, the horizon must recover this far before the next time counts as another incident.
_RECOVERED_HOURS: Final = 36.0
_THEN: Final = " Then start capture again (under Airflow: clear its task)."
_LONG_WAIT_US: Final = 300_000_000
_LONG_PREPARED_US: Final = 3_600_000_000
_COMMAND: Final = re.compile(r"`(lyrebird [^`]+)`")


@dataclass(frozen=True, slots=True)
class CaptureIncident:
    """One thing to tell. `id` is the same for as long as it lasts; `text` says what happened; `fix` is a command."""

    id: str
    kind: IncidentKind
    table: str
    text: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as progress.json has them."""
        return asdict(self)


def incidents_of(source: str, state: CaptureState) -> list[CaptureIncident]:
    """Those that the state tells."""
    told: tuple[tuple[IncidentKind, Mapping[str, TableSetAside], str], ...] = (
        ("aside", state.aside, "is set aside"),
        ("orphans", state.orphans, "may lack changes"),
    )
    return [
        CaptureIncident(
            f"{kind}:{table}:{why.position}",
            kind,
            table,
            f"table {table} of {source} {what}: {why.cause.rstrip('.')}. Since {_place(why)}.",
            f"lyrebird capture resume-table --source {source} {table}",
        )
        for kind, tables, what in told
        for table, why in sorted(tables.items())
    ]


def next_command(source: str, error: LyrebirdError) -> str:
    """The command that an error's advice names, with this source in it; else the one that looks for causes."""
    for command in _COMMAND.findall(error.fix):
        whole = command.replace("--source …", f"--source {source}")
        if "…" not in whole and (f"--source {source}" in whole or not whole.startswith("lyrebird capture")):
            return str(whole)
    return f"lyrebird capture check --source {source}"


class CaptureIncidents:
    """The open incidents of one capture."""

    def __init__(self, source: str, folder: RunFolder, clock: Clock) -> None:
        self._source, self._folder, self._clock = source, folder, clock
        self._kept = folder.kept(_KEPT)
        self._of_state: list[CaptureIncident] = []
        self._state: CaptureState | None = None
        self._end: CaptureIncident | None = None

    def on_state(self, state: CaptureState) -> None:
        """What capture's state is now."""
        if self._state is None or (state.aside, state.orphans) != (self._state.aside, self._state.orphans):
            self._of_state = incidents_of(self._source, state)
        self._state = state

    def on_horizon(self, horizon: Horizon | None) -> None:
        """What is known of the purge horizon; None and unknown change nothing."""
        since = self._kept.get("purge")
        if horizon is None:
            return
        if horizon.short:
            text = (
                f"in {horizon.hours:.1f} h the server of {self._source} purges the binlog from which capture goes on "
                f"({horizon.basis}); raise that limit, or see that capture catches up"
            )
            if since is None or since["text"] != text:
                at_us = self._clock.now_us() if since is None else since["at_us"]
                self._keep("purge", {"at_us": at_us, "text": text})
        elif since is not None and (horizon.basis.startswith("never") or (horizon.hours or 0.0) >= _RECOVERED_HOURS):
            self._keep("purge", None)

    def on_wait(self, error: LyrebirdError) -> None:
        """Capture waits for a server; an incident when it still does five minutes later, until `on_progress`."""
        first = self._kept.get("waiting") or {"at_us": self._clock.now_us()}
        text = f"capture of {self._source} waits since {iso(first['at_us'])}: {error}"
        self._keep("waiting", {**first, "text": text, "fix": next_command(self._source, error)})

    def on_progress(self) -> None:
        """Capture goes on."""
        if "waiting" in self._kept:
            self._keep("waiting", None)

    def on_end(self, error: Terminal) -> CaptureIncident:
        """Capture ends for this, and starting it again would help nobody; open for as long as this process reports."""
        fenced = isinstance(error, Fenced)
        how, command, then = (
            ("was taken over", f"lyrebird capture status --source {self._source}", "")
            if fenced
            else ("has stopped", next_command(self._source, error), _THEN)
        )
        self._end = CaptureIncident(
            f"{'fenced' if fenced else 'stopped'}:{self._clock.now_us()}",
            "fenced" if fenced else "stopped",
            "",
            f"capture of {self._source} {how}: {str(error).rstrip('.')}.{then}",
            command,
        )
        return self._end

    def open(self) -> list[CaptureIncident]:
        """All that are open now."""
        found = list(self._of_state)
        purge = self._kept.get("purge")
        if purge is not None:
            fix = f"lyrebird capture status --source {self._source}"
            found.append(CaptureIncident(f"purge:{purge['at_us']}", "purge", "", purge["text"], fix))
        found += self._prepared()
        wait = self._kept.get("waiting")
        if wait is not None and self._clock.now_us() - wait["at_us"] >= _LONG_WAIT_US:
            found.append(CaptureIncident(f"waiting:{wait['at_us']}", "waiting", "", wait["text"], wait["fix"]))
        return found if self._end is None else [*found, self._end]

    def _prepared(self) -> list[CaptureIncident]:
        waiting = () if self._state is None else self._state.waiting
        return [
            CaptureIncident(
                f"prepared:{each.xid}:{each.after.binlog}",
                "prepared",
                "",
                f"XA transaction {each.xid} of {self._source} is prepared since {iso(each.after.commit_us)}: capture "
                f"begins to read at {each.after.binlog} when it is started again, so that binlog must not be purged. "
                "If nobody ends it any more: XA RECOVER, then XA COMMIT or XA ROLLBACK.",
                f"lyrebird capture status --source {self._source}",
            )
            for each in waiting
            if self._clock.now_us() - each.after.commit_us >= _LONG_PREPARED_US
        ]

    def _keep(self, kind: str, value: dict[str, Any] | None) -> None:
        self._kept = {name: each for name, each in self._kept.items() if name != kind}
        if value is not None:
            self._kept[kind] = value
        self._folder.keep(_KEPT, self._kept)


def _place(why: TableSetAside) -> str:
    return f"{why.gtid} ({why.position})" if why.gtid else why.position
