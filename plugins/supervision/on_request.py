"""A schedule of days that never starts a run by itself: only Airflow's own backfill walks along it.

Airflow backfills along a schedule alone, and a DAG's `allowed_run_types` must have its scheduled runs. A DAG that a
person starts, and that a backfill may run for each of some days, has this one.
"""

from __future__ import annotations

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

__all__ = ["DaysOnRequest"]


class DaysOnRequest(CronDataIntervalTimetable):
    """Days of UTC. Their runs have the day's begin as logical date."""

    description = "Days of a backfill; never by itself"

    def __init__(self) -> None:
        super().__init__("0 0 * * *", timezone="UTC")

    @property
    def summary(self) -> str:
        """What pages show as the schedule."""
        return "on request"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """None for the scheduler, which looks ahead without an end; a backfill has one."""
        if restriction.latest is None:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )

    def serialize(self) -> dict[str, object]:
        """It has no values."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, object]) -> DaysOnRequest:
        """Inverse of `serialize`."""
        del data
        return cls()
