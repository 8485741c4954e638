"""Checks what a person asks by the Params of the DAG lake_upload, and makes its program's arguments of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from include.lake.cron import HOURLY, Cron
from include.settings.deployment import Deployment
from include.settings.run import Names, RunParams, knob

__all__ = ["UPLOADS", "UploadRun", "due", "scheduled"]

UPLOADS: Final = "lake_upload"
"""The application that such a run is, and so its run folder."""


def scheduled(deployment: Deployment) -> tuple[list[str], dict[str, str]]:
    """The names of all groups of the lake, and the schedule (cron) of each that has one; no model is needed.

    Raises `SettingsError` for what is no schedule.
    """
    groups = deployment.names("lake")
    schedules = {}
    for name in groups:
        if deployment.filled("lake", name, "run") == "schedule":
            schedules[name] = cron = str(deployment.filled("lake", name, "schedule") or HOURLY)
            try:
                Cron.parse(cron)
            except ValueError as error:
                raise deployment.error(("lake", name, "schedule"), str(error), got=cron) from error
    return groups, schedules


def due(by_schedule: Mapping[str, str], last: dt.datetime | None, now: dt.datetime) -> list[str]:
    """Those whose time came since the `last` run that went well, up to this one; without one, whose time is now."""
    since = last or now - dt.timedelta(minutes=1)
    return [name for name, cron in by_schedule.items() if Cron.parse(cron).came(since, now)]


class UploadRun(RunParams):
    """One run: groups are stored up to what the log has at its start, by their policy or, with `flush`, all of it."""

    groups: Names = knob(
        "Groups of the lake; none means those that are declared as scheduled.", (), option="--group", among="group"
    )
    flush: bool = knob("All there is, not only what is due by the upload policy: it makes smaller objects.", False)
