"""Checks what a person asks by the Params of the DAG lake_finalise, and makes a `lyrebird` command of it."""

from __future__ import annotations

from pathlib import Path

from include.settings.run import Names, RunParams, knob

__all__ = ["FinaliseRun"]


class FinaliseRun(RunParams):
    """One run over these topics of these partition groups; none of either means all."""

    topics: Names = knob("Names of topics; none means all that are stored.", (), option="TOPIC")
    groups: Names = knob(
        "Only these partition groups; none means all.", (), option="--group", among="partition group", section="lake"
    )

    def arguments(self, report: Path) -> list[str]:
        """Of `lyrebird`: it writes `report` and ends with status 0, also where a topic cannot be judged."""
        return ["lake", "finalise", *self.words(), "--report", str(report)]
