"""The parameters of runs of the DAGs index_rebuild and index_promote, and of `lyrebird index rebuild` and `promote`."""

from __future__ import annotations

from include.settings.run import RunParams, knob

__all__ = ["PromoteRun", "RebuildRun"]


class RebuildRun(RunParams):
    """One rebuild. A retry, and a run after one that failed, goes on with the generation that is unfinished."""

    index: str = knob("The index of the deployment files that is made again.", option="NAME", among="index")
    dry_run: bool = knob("Only say what would be done.", False, before=("--plan",))


class PromoteRun(RunParams):
    """One promotion; without a `generation` that of the last rebuild."""

    index: str = knob("The index of the deployment files whose readers follow.", option="NAME", among="index")
    generation: int | None = knob("Its number. Default: the one that was rebuilt last.", None, ge=1)
    accept_differences: bool = knob("Move also when something speaks against it.", False)
