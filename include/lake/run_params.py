"""What a person may ask of the DAG lake_upload by its Params: checked here, made into its program's arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from include.errors import SettingsError
from include.lake.cron import HOURLY, Cron
from include.settings.deployment import Deployment

__all__ = ["UPLOADS", "UploadRun", "due", "scheduled"]

UPLOADS: Final = "lake_upload"
"""The application that such a run is, and so its run folder."""


def scheduled(deployment: Deployment) -> tuple[list[str], dict[str, str]]:
    """The names of all groups of the lake, and the schedule (cron) of each that has one; no model is needed.

    Raises `SettingsError` for what is no schedule.
    """
    groups = deployment.values.get("lake") or {}
    found = {}
    for name, group in sorted(groups.items()):
        if isinstance(group, dict) and group.get("run") == "schedule":
            found[str(name)] = str(group.get("schedule", HOURLY))
            try:
                Cron.parse(found[str(name)])
            except ValueError as error:
                raise deployment.error(("lake", name, "schedule"), str(error), got=group["schedule"]) from error
    return sorted(map(str, groups)), found


def due(by_schedule: Mapping[str, str], last: dt.datetime | None, now: dt.datetime) -> list[str]:
    """Those whose time came since the `last` run that went well, up to this one; without one, whose time is now."""
    since = last or now - dt.timedelta(minutes=1)
    return [name for name, cron in by_schedule.items() if Cron.parse(cron).came(since, now)]


@dataclass(frozen=True)
class UploadRun:
    """One run: groups are stored up to what the log has at its start, by their policy or, with `flush`, all of it."""

    groups: tuple[str, ...]
    flush: bool = False

    @classmethod
    def from_params(
        cls, params: Mapping[str, Any], groups: Collection[str], by_schedule: Sequence[str]
    ) -> UploadRun | None:
        """Read the Params `groups` and `flush`; no group means those of `by_schedule`, None that there are none.

        Raises:
            SettingsError: a group is unknown or named twice.
        """
        asked = tuple(params.get("groups") or by_schedule)
        if unknown := sorted(set(asked) - set(groups)):
            raise SettingsError(
                "no group of this name is declared",
                path="params.groups",
                got=unknown,
                allowed=sorted(groups),
                fix="Choose some of them, or none for those on a schedule.",
            )
        if len(set(asked)) != len(asked):
            raise SettingsError("a group is named twice", path="params.groups", got=list(asked), fix="Name it once.")
        return cls(asked, bool(params.get("flush"))) if asked else None

    def arguments(self) -> list[str]:
        """Of `spark_apps/lake_upload.py`."""
        names = [part for name in self.groups for part in ("--group", name)]
        return [*names, "--flush"] if self.flush else names
