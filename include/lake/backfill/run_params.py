"""What a person may ask of the DAG lake_backfill by its Params: checked here, made into commands."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.errors import SettingsError
from include.lake.backfill.request import ORIGINS, BackfillRequest
from include.settings.deployment import Deployment

__all__ = ["NOTHING_STATUS", "BackfillRun", "partition_groups"]

NOTHING_STATUS: Final = 4
"""Exit status of `lyrebird lake backfill` when nothing that was asked for is committed."""

_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 60


def partition_groups(deployment: Deployment) -> list[str]:
    """The names of all partition groups; no model is needed."""
    groups = deployment.values.get("lake") or {}
    return sorted(
        str(name) for name, group in groups.items() if isinstance(group, dict) and group.get("kind") == "partition"
    )


@dataclass(frozen=True)
class BackfillRun:
    """One run: what is made again, whether it is only planned, and what readers' promotion accepts."""

    request: BackfillRequest
    dry_run: bool = False
    accept: bool = False

    @classmethod
    def from_params(
        cls, params: Mapping[str, Any], groups: Collection[str], run_id: str, day: dt.date | None = None
    ) -> BackfillRun:
        """Read the Params; without dates the `day` of a run of Airflow's own backfill is taken.

        Raises:
            SettingsError: a topic, dates or offsets are missing, or do not go together; no such group or source.
        """
        topic = str(params.get("topic") or "").strip()
        if not topic:
            raise SettingsError("which topic?", path="params.topic", fix="Name one, as Kafka has it.")
        group = str(params.get("group") or "")
        if group and group not in groups:
            raise SettingsError(
                "no partition group of this name",
                path="params.group",
                got=group,
                allowed=sorted(groups),
                fix="Choose one of them, or none for the only one with the topic.",
            )
        source = str(params.get("source") or "raw")
        chosen = next((each for each in ORIGINS if each == source), None)
        if chosen is None:
            raise SettingsError("no such source", path="params.source", got=source, allowed=list(ORIGINS))
        since, until = str(params.get("from") or ""), str(params.get("to") or "")
        offsets = tuple(str(each) for each in params.get("offsets") or ())
        if not since and not offsets:
            if day is None:
                raise SettingsError(
                    "which days?", path="params.from", fix="Give the first and the last, or offsets of partitions."
                )
            since = day.isoformat()
        version = params.get("version")
        request = BackfillRequest(
            topic=topic,
            since=since,
            until=until,
            offsets=offsets,
            version=None if version is None else int(version),
            as_of=str(params.get("as_of") or ""),
            source=chosen,
            group=group,
            raw=str(params.get("raw") or ""),
            run=_name(run_id),
        )
        return cls(request, bool(params.get("dry_run")), bool(params.get("accept_differences")))

    def plan_arguments(self) -> list[str]:
        """Of `lyrebird`: say what would be made again from what."""
        return ["lake", "backfill", *self.request.arguments(), "--plan"]

    def promote_arguments(self) -> list[str]:
        """Of `lyrebird`: compare, and let readers follow."""
        group = ["--group", self.request.group] if self.request.group else []
        accept = ["--accept-differences"] if self.accept else []
        return ["lake", "promote", self.request.topic, "--run", self.request.run, *group, *accept]


def _name(run_id: str) -> str:
    """A run's name that a retry, and a cleared task, has again."""
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:8]
    return f"{_SAFE.sub('_', run_id)[:_LONGEST]}-{digest}"
