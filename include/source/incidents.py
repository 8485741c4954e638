"""Opens and ends the incidents of a capture: each is told once to a person, by mail, where capture is supervised.

Tables set aside or in want of rows, and prepared transactions, stand in capture's own state, so in the log. A short
purge horizon and a long wait do not: the run folder keeps them. What ends capture has an id for each end.
"""

from __future__ import annotations

from typing import Any, Final

from include.clock import Clock, iso
from include.errors import Fenced, LyrebirdError, Terminal
from include.incidents.kind import Incident, IncidentKind, advised
from include.incidents.ledger import IncidentLedger
from include.metrics.progress import RunFolder
from include.source.database.purge import PurgeHorizon
from include.source.state.capture_state import CaptureState, TableSetAside
from include.source.state.job import GAP_OF_TOPIC

__all__ = [
    "ASIDE",
    "FENCED",
    "ORPHANS",
    "PREPARED",
    "PURGE",
    "STOPPED",
    "TOPIC",
    "WAITING",
    "CaptureIncidents",
    "next_command",
]

ASIDE: Final = IncidentKind("aside", "capture", "error", "capture.md#a-table-is-set-aside",
    opens="a table's rows cannot be read: it is [set aside](glossary.md#set-aside), all others go on",
    ends="the table is taken up again", text="table {table} of {source} is set aside: {cause}. Since {place}.",
    fix="Mend the cause (the mail names position and column), then "
        "`lyrebird capture resume-table --source {source} {table}`.")  # fmt: skip
ORPHANS: Final = IncidentKind("orphans", "capture", "error", "capture-types.md#foreign-keys-that-cascade",
    opens="a table may lack changes: a foreign key cascades into it without a trace in the binlog",
    ends="the table is read again", text="table {table} of {source} may lack changes: {cause}. Since {place}.",
    fix="Remove the key, then `lyrebird capture resume-table --source {source} {table}`.")  # fmt: skip
TOPIC: Final = IncidentKind("topic", "capture", "error", "capture.md#a-topic-that-is-gone-or-needs-more-partitions",
    opens="a captured table's topic was deleted, or made anew by somebody else: capture reads all rows of the table "
          "into it again", ends="they are read",
    text="the topic of table {table} of {source} was deleted, or made anew. Capture reads all rows of the table into "
         "it again; of those who read the topic, some begin anew, some stop.",
    fix="`lyrebird capture status --source {source}` says how far it is, `lyrebird status` which readers "
        "stopped.")  # fmt: skip
PURGE: Final = IncidentKind("purge", "capture", "critical", "capture.md#see-how-far-the-copy-is",
    opens="in less than 24 hours the server deletes the binlog that capture still needs", ends="it is 36 hours again",
    text="in {hours:.1f} h the server of {source} purges the binlog from which capture goes on ({basis}); raise that "
         "limit, or see that capture catches up",
    fix="Raise the server's limit, or find out why capture is behind: "
        "`lyrebird capture status --source {source}`.")  # fmt: skip
PREPARED: Final = IncidentKind("prepared", "capture", "warning", "capture.md#see-how-far-the-copy-is",
    opens="an XA transaction has been prepared for an hour; its binlog is needed until it ends", ends="it ends",
    text="XA transaction {xid} of {source} is prepared since {since}: capture begins to read at {position} when it is "
         "started again, so that binlog must not be purged. If nobody ends it any more: XA RECOVER, then XA COMMIT or "
         "XA ROLLBACK.",
    fix="Commit it or roll it back at the server; `lyrebird capture status --source {source}`.")  # fmt: skip
WAITING: Final = IncidentKind("waiting", "capture", "warning", "capture.md#outages",
    opens="the database server, Kafka, the schema registry or room on disk has been missing for five minutes",
    ends="capture goes on", text="capture of {source} waits since {since}: {error}",
    fix="Bring it back: `lyrebird capture check --source {source}`. Nothing is lost.")  # fmt: skip
FENCED: Final = IncidentKind("fenced", "capture", "critical", "capture.md#the-source-stops",
    opens="another capture of the source has taken over; this one ends", ends="",
    text="capture of {source} was taken over: {error}.",
    fix="Find out who started the other one: `lyrebird capture status --source {source}`.")  # fmt: skip
STOPPED: Final = IncidentKind("stopped", "capture", "critical", "capture.md#the-source-stops",
    opens="capture ends for a cause that a restart does not mend", ends="",
    text="capture of {source} has stopped: {error}. Then start capture again (under Airflow: clear its task).",
    fix="Mend what `lyrebird capture check --source {source}` says, then clear the task.")  # fmt: skip

# Once told, the horizon must recover this far before the next time counts as another incident.
_RECOVERED_HOURS: Final = 36.0
_LONG_WAIT_US: Final = 300_000_000
_LONG_PREPARED_US: Final = 3_600_000_000


def next_command(source: str, error: LyrebirdError) -> str:
    """The first whole command of an error's advice, with this source in it; "" where it names none."""
    of_source = f"--source {source}"
    for command in advised(error.fix):
        whole = command.replace("--source …", of_source)
        if "…" not in whole and (of_source in whole or not whole.startswith("lyrebird capture")):
            return whole
    return ""


class CaptureIncidents(IncidentLedger):
    """The open incidents of one capture."""

    def __init__(self, source: str, folder: RunFolder, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._source = source
        self._seen = CaptureState()
        if self.find(PURGE) and not self.find(PURGE)["fix"]:
            # Kept by a version that did not keep commands.
            self.amend(PURGE, "", fix=PURGE.command(source=source))

    def on_state(self, state: CaptureState) -> None:
        """Opens and ends the incidents that follow from capture's state."""
        before, self._seen = self._seen, state
        if (before.aside, before.orphans, before.waiting, before.jobs) == (
            state.aside,
            state.orphans,
            state.waiting,
            state.jobs,
        ):
            return
        lost = {f"{t}:{job.id}": t for job in state.jobs if job.id.startswith(GAP_OF_TOPIC) for t in job.tables}
        self.only(TOPIC, lost)
        for subject, table in lost.items():
            self._note(TOPIC, subject, group=table, kept=False, table=table)
        for kind, tables in ((ASIDE, state.aside), (ORPHANS, state.orphans)):
            noted = {f"{table}:{why.position}": (table, why) for table, why in sorted(tables.items())}
            self.only(kind, noted)
            for subject, (table, why) in noted.items():
                names = {"table": table, "cause": why.cause.rstrip("."), "place": _place(why)}
                self._note(kind, subject, group=table, kept=False, **names)
        prepared = {f"{each.xid}:{each.after.binlog}": each for each in state.waiting}
        self.only(PREPARED, prepared)
        for subject, each in prepared.items():
            opens_us, since = each.after.commit_us + _LONG_PREPARED_US, iso(each.after.commit_us)
            names = {"xid": each.xid, "since": since, "position": str(each.after.binlog)}
            self._note(PREPARED, subject, opens_us=opens_us, kept=False, **names)

    def on_horizon(self, horizon: PurgeHorizon | None) -> None:
        """Opens or ends the incident of the purge horizon; None and unknown change nothing."""
        if horizon is None:
            return
        if horizon.short:
            self._note(PURGE, hours=horizon.hours, basis=horizon.basis)
        elif horizon.basis.startswith("never") or (horizon.hours or 0.0) >= _RECOVERED_HOURS:
            self.end(PURGE)

    def on_wait(self, error: LyrebirdError) -> None:
        """Capture waits for a server; an incident when it still does five minutes later, until `on_progress`."""
        since_us = self.find(WAITING).get("at_us", self._clock.now_us())
        fix = next_command(self._source, error)
        self._note(WAITING, fix=fix, opens_us=since_us + _LONG_WAIT_US, since=iso(since_us), error=error)

    def on_progress(self) -> None:
        """Capture goes on."""
        self.end(WAITING)

    def on_end(self, error: Terminal) -> Incident:
        """Capture ends for this, and starting it again would help nobody; open for as long as this process reports."""
        kind, fix = (FENCED, "") if isinstance(error, Fenced) else (STOPPED, next_command(self._source, error))
        return self._note(kind, str(self._clock.now_us()), fix=fix, kept=False, error=str(error).rstrip("."))

    def _note(self, kind: IncidentKind, subject: str = "", **names: Any) -> Incident:
        return self.note(kind, subject, source=self._source, **names)


def _place(why: TableSetAside) -> str:
    return f"{why.gtid} ({why.position})" if why.gtid else why.position
