"""The first tasks of the DAGs index_rebuild and index_promote: what a person asks for, made into commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.index.run_params import PromoteRun, RebuildRun

__all__ = ["check_promotion", "check_rebuild"]


def check_rebuild(indexes: Sequence[str], params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The commands of a rebuild: `plan` of `lyrebird`, `arguments` of the Spark application."""
    asked = RebuildRun.from_params(params or {}, index=indexes)
    return {"plan": ["index", "rebuild", asked.index, "--dry-run"], "arguments": [asked.index]}


def check_promotion(indexes: Sequence[str], params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The commands of a promotion: `prove` says what speaks against it, `promote` moves the alias."""
    promote = ["index", "promote", *PromoteRun.from_params(params or {}, index=indexes).words()]
    return {"prove": [*promote, "--dry-run"], "promote": promote}
