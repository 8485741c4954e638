"""Gives Airflow the schedule of backfills, and the links from a task to its page, which DAG files and tasks need.

Every process of Airflow loads this plugin. It imports nothing of the pages (`lyrebird_pages_plugin.py`), whose faults
must not take a DAG's timetable away.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from supervision.airflow_conf import warn_of_faults
from supervision.links import ApplicationLogLink, AuditResultLink
from supervision.on_request import DaysOnRequest

__all__ = ["LyrebirdSchedules"]


class LyrebirdSchedules(AirflowPlugin):
    """Registers the schedule of backfills, and the links to logs and to audits' results."""

    name = "lyrebird_schedules"

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Name the settings of Airflow that supervision cannot work with, in each component's log."""
        warn_of_faults()

    # Airflow reads the lists from the class, and declares them as an instance's: neither spelling pleases both tools.
    operator_extra_links = [ApplicationLogLink(), AuditResultLink()]  # noqa: RUF012
    timetables = [DaysOnRequest]  # noqa: RUF012
