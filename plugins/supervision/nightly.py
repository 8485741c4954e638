"""The schedule of a DAG that runs at times of the day (UTC), and only then.

Airflow's `run_immediately=False` does not say that: a DAG that is new still starts at once where a tenth of the time
to the next run has not passed, so a nightly audit would begin while its platform is being installed or tried out,
and a run that somebody starts by hand would wait behind it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable

__all__ = ["only_at"]


def only_at(cron: str) -> CronTriggerTimetable:
    """Runs at the times of this cron expression that lie in the future when the DAG is first seen."""
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))
