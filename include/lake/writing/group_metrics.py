"""Brings the metrics of an application's groups up to date; `kind` of each is the group's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from include.clock import Clock
from include.lake.writing.planner import GroupPlanner
from include.lake.writing.report import GroupReport
from include.metrics.exporter import Metrics
from include.metrics.names import Counter

__all__ = ["GroupMetrics"]

_COUNTED: Final[tuple[tuple[Counter, str], ...]] = (
    ("lyrebird_cuts_total", "cuts"),
    ("lyrebird_rows_total", "records"),
    ("lyrebird_stored_bytes_total", "bytes"),
    ("lyrebird_filtered_total", "filtered"),
    ("lyrebird_set_aside_total", "quarantined"),
    ("lyrebird_lost_ranges_total", "losses"),
    ("lyrebird_offset_failures_total", "offset_failures"),
    ("lyrebird_unknown_schema_ids_total", "unknown_ids"),
)


class GroupMetrics:
    """Brings `metrics` up to date, as often as it is asked to."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._began_s = clock.monotonic_s()
        self._told: dict[tuple[str, Counter], int] = {}

    def count_incidents(self, kinds: Iterable[str]) -> None:
        """Incidents that have opened."""
        for kind in kinds:
            self._metrics.count("lyrebird_incidents_total", 1, kind)

    def show(self, report: GroupReport, planner: GroupPlanner) -> None:
        """Counts what became of a group since the last call, and sets what waits now."""
        group, told = report.name, self._told
        for counter, field in _COUNTED:
            value: int = getattr(report, field)
            self._metrics.count(counter, value - told.get((group, counter), 0), group)
            told[group, counter] = value
        now_ms = self._clock.now_us() // 1000
        hidden = sum(each.hidden.written - each.hidden.stable for each in (planner.held_up() or {}).values())
        self._metrics.set("lyrebird_lag_records", sum(planner.waiting().values()) + hidden, group)
        self._metrics.set("lyrebird_lag_seconds", planner.age_ms(now_ms) / 1000, group)
        self._metrics.set("lyrebird_up_seconds", self._clock.monotonic_s() - self._began_s)
