"""Reports a supervised capture's progress, metrics and incidents, and hears a stop request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.metrics.exporter import Metrics
from include.metrics.progress import RunFolder
from include.source.database.purge_watch import PurgeWatch
from include.source.definition import SourceDefinition
from include.source.incidents import CaptureIncidents
from include.source.ports import Group, SessionWatcher

__all__ = ["Reporter"]

_REPORT_EVERY_S: Final = 0.5
_WAIT: Final = ("waiting_for", "waits_for", "waiting_since_us", "attempt")
_EVENTS: Final = {"c": "WRITE_ROWS", "u": "UPDATE_ROWS", "d": "DELETE_ROWS"}


@dataclass
class Reporter(SessionWatcher):
    """Writes progress.json twice a second at most; `incidents` and `purge` where the capture is to tell of them."""

    folder: RunFolder
    metrics: Metrics
    clock: Clock
    interrupted: Callable[[], bool] = bool
    incidents: CaptureIncidents | None = None
    purge: PurgeWatch | None = None
    commits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._started_s = self._asked_s = self._reported_s = self.clock.monotonic_s()
        self._asked_s -= 1
        self._reported_s -= 1
        self._stop = False
        self._parts = self._past = 0
        self._reading: tuple[float, int] | None = None
        self._rows, self._skipped, self._transactions = Counter[str](), Counter[str](), 0
        self._said: dict[str, Any] = {"started_us": self.clock.now_us()}

    def stop_requested(self) -> bool:
        """The guardian's stop file (looked for five times a second), or a signal."""
        now_s = self.clock.monotonic_s()
        if not self._stop and now_s - self._asked_s >= 0.2:
            self._asked_s = now_s
            self._stop = self.folder.stop_requested() or self.interrupted()
        return self._stop

    def on_commit(self, group: Group, *, caught_up: bool) -> None:
        """Count and show it."""
        self.commits += 1
        self._rows.update(group.ops)
        self._transactions += group.transactions
        self._past += group.past
        self.metrics.count("lyrebird_filtered_total", group.past, "past")
        self.metrics.count("lyrebird_filtered_total", group.texts, "text")
        for op, rows in group.ops.items():
            self.metrics.count("lyrebird_rows_total", rows, op)
        for op, events in group.skipped.items():
            self._skipped[_EVENTS[op]] += events
            self.metrics.count("lyrebird_skipped_events_total", events, _EVENTS[op])
        self.metrics.count("lyrebird_transactions_total", group.transactions)
        lag_s = 0.0 if caught_up else max(0.0, (self.clock.now_us() - group.position.commit_us) / 1e6)
        self.metrics.set("lyrebird_lag_seconds", lag_s)
        self.metrics.set("lyrebird_position_commit_seconds", group.position.commit_us / 1e6)
        self.metrics.set("lyrebird_up_seconds", self.clock.monotonic_s() - self._started_s)
        self.metrics.set("lyrebird_tables_set_aside", len({*group.state.aside, *group.state.orphans}))
        if self.purge is not None:
            self.purge.see(group.state.needed(group.position))
        if self.incidents is not None:
            self.incidents.on_progress()
            self.incidents.on_state(group.state)
        for gone in _WAIT:
            self._said.pop(gone, None)
        self._report(
            position=str(group.position.binlog),
            gtids=str(group.position.gtids),
            commit_us=group.position.commit_us,
            lag_s=round(lag_s, 3),
            rows=self._rows.total(),
            transactions=self._transactions,
            snapshot=group.state.snapshot,
            ops=dict(self._rows),
            skipped=dict(self._skipped),
            past=self._past,
        )

    def on_part(self) -> None:
        """A huge transaction is on its way: that is progress too."""
        self._parts += 1
        self._report(parts=self._parts)

    def on_snapshot(self, table: str, rows: int, done: int, total: int | None) -> None:
        """Show how far the snapshot is, how fast, and how long it may take."""
        now_s = self.clock.monotonic_s()
        if self._reading is None:
            self._reading = now_s, done
        since_s, before = self._reading
        rate = (done - before) / (now_s - since_s) if now_s > since_s else 0.0
        self._said["reading"] = {
            "table": table,
            "rows": rows,
            "done": done,
            "total": total,
            "rows_per_s": round(rate),
            "left_s": round(max(0, total - done) / rate) if total is not None and rate else None,
        }
        self.metrics.set("lyrebird_snapshot_rows", rows, table)

    def on_snapshot_end(self) -> None:
        """No table is being read any more."""
        self._reading = None
        self._said.pop("reading", None)

    def on_server(self, source: SourceDefinition) -> None:
        """Notes from which of the source's servers the next session reads."""
        self._said["server"] = source.place
        if self.purge is not None:
            self.purge.move(source)

    def on_retry(self, error: LyrebirdError, attempt: int) -> None:
        """A session was lost; waiting counts as progress, as starting anew would help nobody."""
        self.metrics.count("lyrebird_retries_total")
        if self.incidents is not None:
            self.incidents.on_wait(error)
        self._said.setdefault("waiting_since_us", self.clock.now_us())
        self._report(now=True, waiting_for=str(error), waits_for=str(error.details.get("system", "")), attempt=attempt)

    def on_end(self, error: Terminal) -> None:
        """A restart would meet the same: told before capture ends."""
        if self.incidents is not None:
            self.folder.give_up(self.incidents.on_end(error).to_json())
        self._report(now=True)

    def _report(self, *, now: bool = False, **fields: object) -> None:
        self._said.update(fields)
        now_s = self.clock.monotonic_s()
        if not now and now_s - self._reported_s < _REPORT_EVERY_S:
            return
        self._reported_s = now_s
        if self.purge is not None and self.purge.horizon is not None:
            hours = self.purge.horizon.hours
            self._said["purge"] = {"hours": hours, "basis": self.purge.horizon.basis}
            if hours is not None:
                self.metrics.set("lyrebird_purge_horizon_hours", hours)
        if self.incidents is not None:
            self.incidents.on_horizon(None if self.purge is None else self.purge.horizon)
            self._said["incidents"] = self.incidents.open()
            for kind in self.incidents.fresh():
                self.metrics.count("lyrebird_incidents_total", 1, kind)
        self.folder.report(**self._said)
