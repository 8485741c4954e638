"""Parameters of a run of the nightly chain audit, and the verdict on its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.audit.chain.finding import counted
from include.audit.nothing import judged_nothing
from include.settings.run import Names, RunParams, knob

__all__ = ["ChainAuditRun", "ChainVerdict", "verdict_of"]


class ChainAuditRun(RunParams):
    """One run over these topics of these groups; none of either means all."""

    topics: Names = knob("Names of topics; none means all that the groups have.", (), option="TOPIC")
    groups: Names = knob(
        "Only these groups of the lake; none means all.",
        (),
        option="--group",
        among="group of the lake",
        section="lake",
    )
    deep: bool = knob("Read every object: its bytes, records and offsets.", False)

    def arguments(self, report: Path) -> list[str]:
        """Of `lyrebird`: it writes `report` and ends with status 0, findings or not."""
        return ["audit", "chain", *([] if self.topics else ["--all"]), *self.words(), "--report", str(report)]


@dataclass(frozen=True)
class ChainVerdict:
    """The verdict on a report; `next_command` is empty when it is clean."""

    topics: int
    findings: int
    text: str
    next_command: str


def verdict_of(report: Mapping[str, Any]) -> ChainVerdict:
    """Judge a report: {"topics": {name: {"findings": […], …}}}, at least one of which was judged."""
    findings = {name: each["findings"] for name, each in report["topics"].items() if each["findings"]}
    if not findings:
        nothing = sorted(name for name, each in report["topics"].items() if judged_nothing(each))
        nothing += [f"group {name}" for name in sorted(report.get("nothing", ()))]
        judged = sum(not judged_nothing(each) for each in report["topics"].values())
        text = f"clean: {counted(judged, 'topic')}" + (f"; nothing yet of {', '.join(nothing)}" if nothing else "")
        return ChainVerdict(judged, 0, text, "")
    count = sum(map(len, findings.values()))
    name, found = next(iter(sorted(findings.items())))
    first = found[0]
    others = f"; {len(findings)} topics are not clean: {', '.join(sorted(findings))}" if len(findings) > 1 else ""
    coordinates = f"{first['group']}, topic {name}"
    if first["partition"] is not None:
        coordinates += f", partition {first['partition']}"
    if first["first"] is not None:
        coordinates += f", offset {first['first']}"
    text = f"the lake's chains are not clean: {counted(count, 'finding')}, the first: {first['fault']} ({coordinates})"
    key = f" {first['key']}" if first["key"] else ""
    deep = " --deep" if report["topics"][name].get("depth") == "bytes" else ""
    return ChainVerdict(
        len(report["topics"]),
        count,
        f"{text}:{key} {first['meaning']}{others}",
        f"lyrebird audit chain {shlex.quote(name)}{deep}",
    )
