"""The tasks of the DAG lake_finalise: what is asked, the asset events of its report, and what it means for the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias

from include.errors import Terminal
from include.lake.finalising.report import asset_updates, refuse_errors
from include.lake.finalising.run_params import FinaliseRun
from include.settings.environment import state_folder
from supervision.refusing import NoRetry

__all__ = ["DATES", "announce_dates", "check_finalise", "judge_dates"]

DATES: Final = "lake_dates"
"""The alias of every asset `lake://<topic>/dt`: topics are known when a run has seen them."""

_KEPT: Final = 100


def check_finalise(
    groups: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """The commands of the run, and where its report will be."""
    asked = FinaliseRun.from_params(params or {}, groups=groups)
    folder = state_folder() / "lake" / "finalise"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    report = folder / f"{''.join(c if c.isalnum() or c in '-_.' else '_' for c in run_id or '')}.json"
    # A run that is repeated must not tell what its earlier try has found.
    report.unlink(missing_ok=True)
    return {
        "arguments": asked.arguments(report),
        "acknowledgement": ["lake", "finalise", "--acknowledge", str(report)],
        "report": str(report),
    }


def announce_dates(report: str, outlet_events: Any = None) -> int:
    """Add an event for each date to its topic's asset; they are there when the task succeeds. Gives how many."""
    updates = asset_updates(json.loads(Path(report).read_text(encoding="utf-8")))
    for update in updates:
        outlet_events[AssetAlias(DATES)].add(Asset(name=update.uri, uri=update.uri), extra=update.extra)
    return len(updates)


def judge_dates(report: str) -> int:
    """Fails the run when a topic could not be judged; returns the number of topics."""
    try:
        return refuse_errors(json.loads(Path(report).read_text(encoding="utf-8")))
    except Terminal as error:
        raise NoRetry(str(error), "lyrebird lake finalise --dry-run") from error
