"""Checks what a person asks by the Params of the DAG lake_backfill, and makes `lyrebird` commands of it."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from include.errors import SettingsError
from include.lake.backfill.request import BackfillRequest
from include.settings.deployment import Deployment
from include.settings.run import knob

__all__ = ["NOTHING_STATUS", "BackfillRun", "partition_groups"]

NOTHING_STATUS: Final = 4
"""Exit status of `lyrebird lake backfill` when nothing that was asked for is committed."""

_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 60


def partition_groups(deployment: Deployment) -> list[str]:
    """The names of all partition groups; no model is needed."""
    return [name for name in deployment.names("lake") if deployment.filled("lake", name, "kind") == "partition"]


class BackfillRun(BackfillRequest):
    """One run: what is made again, whether it is only planned, and what readers' promotion accepts."""

    dry_run: bool = knob("Say what would be made again from what, and write nothing.", False, before=("--plan",))
    accept_differences: bool = knob(
        "Promote also when more records are refused, or counts or bytes are not as expected.", False
    )

    @classmethod
    def of(cls, params: Mapping[str, Any], groups: Collection[str], run_id: str, day: dt.date | None) -> BackfillRun:
        """Read the Params; without dates the `day` of a run of Airflow's own backfill is taken.

        Raises:
            SettingsError: a topic, dates or offsets are missing, or a value is none; no such group or source.
        """
        asked = cls.from_params(params, group=groups)
        if not asked.topic:
            raise SettingsError("which topic?", path="params.topic", fix="Name one, as Kafka has it.")
        since = asked.since or ("" if asked.offsets or day is None else day.isoformat())
        if not since and not asked.offsets:
            fix = "Give the first and the last, or offsets of partitions."
            raise SettingsError("which days?", path="params.from", fix=fix)
        return asked.model_copy(update={"since": since, "run": _name(run_id)})

    def request_arguments(self) -> list[str]:
        """Of `lyrebird lake backfill`, and of `spark_apps/backfill_lake.py`."""
        return self.words(*BackfillRequest.model_fields)

    def promote_arguments(self) -> list[str]:
        """Of `lyrebird`: compare, and let readers follow."""
        return ["lake", "promote", *self.words("topic", "run", "group", "accept_differences")]


def _name(run_id: str) -> str:
    """A run's name that a retry, and a cleared task, has again."""
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{_SAFE.sub('_', run_id)[:_LONGEST]}-{digest}"
