"""The first tasks of the DAGs index_rebuild and index_promote: what a person asks for, made into commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.index.run_params import PromoteRun, RebuildRun

__all__ = ["check_promotion", "check_rebuild"]


def check_rebuild(indexes: Sequence[str], params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The commands of a rebuild: `plan` of `lyrebird`, `arguments` of the Spark application."""
    asked = RebuildRun.from_params(params or {}, indexes)
    return {"plan": asked.plan_arguments(), "arguments": asked.arguments()}


def check_promotion(indexes: Sequence[str], params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The commands of a promotion: `prove` says what speaks against it, `promote` moves the alias."""
    asked = PromoteRun.from_params(params or {}, indexes)
    return {"prove": asked.check_arguments(), "promote": asked.arguments()}
