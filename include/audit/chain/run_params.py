"""What a person may ask of the nightly audit of chains by its DAG's Params, and what its report means for the run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.audit.chain.finding import counted
from include.errors import SettingsError

__all__ = ["ChainAuditRun", "ChainVerdict", "verdict_of"]


@dataclass(frozen=True)
class ChainAuditRun:
    """One run over these topics of these groups; none of either means all."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    deep: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any], groups: Collection[str]) -> ChainAuditRun:
        """Read the Params `topics`, `groups` and `deep`.

        Raises:
            SettingsError: a group is unknown, something is named twice, or there is no group at all.
        """
        if not groups:
            raise SettingsError(
                "no group of the lake is declared", path="lake", fix="Declare one, or pause the DAG audit_chain."
            )
        asked = {name: tuple(params.get(name) or ()) for name in ("topics", "groups")}
        for name, found in asked.items():
            if len(set(found)) != len(found):
                raise SettingsError("something is named twice", path=f"params.{name}", got=list(found), fix="Once.")
        if unknown := sorted(set(asked["groups"]) - set(groups)):
            raise SettingsError(
                "no group of this name is declared",
                path="params.groups",
                got=unknown,
                allowed=sorted(groups),
                fix="Choose some of them, or none for all.",
            )
        return cls(asked["topics"], asked["groups"], bool(params.get("deep")))

    def arguments(self, report: Path) -> list[str]:
        """Of `lyrebird`: it writes `report` and ends with status 0, findings or not."""
        groups = [part for name in self.groups for part in ("--group", name)]
        which = list(self.topics) or ["--all"]
        deep = ["--deep"] if self.deep else []
        return ["lake", "audit", *which, *groups, *deep, "--report", str(report)]


@dataclass(frozen=True)
class ChainVerdict:
    """What a report says; `next_command` is empty when it is clean."""

    topics: int
    findings: int
    text: str
    next_command: str


def verdict_of(report: Mapping[str, Any]) -> ChainVerdict:
    """Judge a report: {"topics": {name: {"findings": […], …}}}."""
    findings = {name: each["findings"] for name, each in report["topics"].items() if each["findings"]}
    if not findings:
        return ChainVerdict(len(report["topics"]), 0, f"clean: {counted(len(report['topics']), 'topic')}", "")
    count = sum(map(len, findings.values()))
    name, found = next(iter(sorted(findings.items())))
    first = found[0]
    others = f"; {len(findings)} topics are not clean: {', '.join(sorted(findings))}" if len(findings) > 1 else ""
    place = f"{first['group']}, topic {name}"
    if first["partition"] is not None:
        place += f", partition {first['partition']}"
    if first["first"] is not None:
        place += f", offset {first['first']}"
    text = f"the lake's chains are not clean: {counted(count, 'finding')}, the first: {first['fault']} ({place})"
    key = f" {first['key']}" if first["key"] else ""
    deep = " --deep" if report["topics"][name].get("depth") == "bytes" else ""
    return ChainVerdict(
        len(report["topics"]),
        count,
        f"{text}:{key} {first['meaning']}{others}",
        f"lyrebird lake audit {shlex.quote(name)}{deep}",
    )
