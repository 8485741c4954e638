"""Starts the pipeline as a user would: by Airflow's REST interface, each DAG once."""

from __future__ import annotations

from collections.abc import Sequence

from include.errors import Terminal
from include.local.demo.airflow import Airflow
from include.local.demo.extras import Part

__all__ = ["SNAPSHOT_WITHIN_S", "await_snapshot", "start"]

SNAPSHOT_WITHIN_S = 300.0


def start(airflow: Airflow, parts: Sequence[Part], source: str = "shop") -> str | None:
    """Start what does not run yet; returns the run id of the snapshot, None when the source is captured already.

    Streams start beside the snapshot: each waits for the topics that it reads. Runs that survived a restart of the
    stack are left alone, as Airflow brings their applications back by itself.
    """
    streams = [dag for part in parts for dag in part.streams]
    verdicts = [dag for part in parts for dag in part.verdicts]
    airflow.wait_for_dags({"source_snapshot", "source_replicate", *streams, *verdicts})
    for dag in ("source_replicate", *verdicts):
        airflow.unpause(dag)
    snapshot = None
    if airflow.running("source_replicate") is None:
        snapshot = airflow.ensure_running("source_snapshot", {"source": source, "mode": "auto"})
    for dag in streams:
        airflow.ensure_running(dag)
    return snapshot


def await_snapshot(airflow: Airflow, run_id: str, within_s: float = SNAPSHOT_WITHIN_S) -> None:
    """Return once the snapshot is complete; raises `Terminal` when it failed."""
    state = airflow.wait("source_snapshot", run_id, within_s)
    if state != "success":
        raise Terminal("the snapshot failed", run=run_id, fix="Read the task log of this run in Airflow.")
