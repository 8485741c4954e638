"""What a person may ask of the DAG lake_finalise by its Params: checked here, made into its commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.errors import SettingsError

__all__ = ["FinaliseRun"]


@dataclass(frozen=True)
class FinaliseRun:
    """One run over these topics of these partition groups; none of either means all."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @classmethod
    def from_params(cls, params: Mapping[str, Any], groups: Collection[str]) -> FinaliseRun:
        """Read the Params `topics` and `groups`.

        Raises:
            SettingsError: a group is unknown, something is named twice, or there is no partition group at all.
        """
        if not groups:
            raise SettingsError(
                "no partition group of the lake is declared",
                path="lake",
                fix="Declare one, or pause the DAG lake_finalise.",
            )
        asked = {name: tuple(params.get(name) or ()) for name in ("topics", "groups")}
        for name, found in asked.items():
            if len(set(found)) != len(found):
                raise SettingsError("something is named twice", path=f"params.{name}", got=list(found), fix="Once.")
        if unknown := sorted(set(asked["groups"]) - set(groups)):
            raise SettingsError(
                "no partition group of this name",
                path="params.groups",
                got=unknown,
                allowed=sorted(groups),
                fix="Choose some of them, or none for all.",
            )
        return cls(asked["topics"], asked["groups"])

    def arguments(self, report: Path) -> list[str]:
        """Of `lyrebird`: it writes `report` and ends with status 0, also where a topic cannot be judged."""
        groups = [part for name in self.groups for part in ("--group", name)]
        return ["lake", "finalise", *self.topics, *groups, "--report", str(report)]

    @staticmethod
    def acknowledgement(report: Path) -> list[str]:
        """Of `lyrebird`: what `report` says was told."""
        return ["lake", "finalise", "--acknowledge", str(report)]
