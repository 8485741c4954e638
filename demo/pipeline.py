"""Starts the pipeline as a user would: by Airflow's REST interface, each DAG once."""

from __future__ import annotations

from collections.abc import Sequence

from demo.airflow import Airflow
from demo.extras import DemoPart
from include.errors import Terminal

__all__ = ["SNAPSHOT_WITHIN_S", "await_snapshots", "start"]

SNAPSHOT_WITHIN_S = 300.0


def start(airflow: Airflow, parts: Sequence[DemoPart]) -> list[str]:
    """Start what does not run yet; returns the run ids of snapshots, one for each source that is not captured already.

    Streams start beside the snapshot: each waits for the topics that it reads. Runs that survived a restart of the
    stack are left alone, as Airflow brings their applications back by itself.
    """
    streams = [dag for part in parts for dag in part.streams]
    verdicts = [dag for part in parts for dag in part.verdicts]
    airflow.wait_for_dags({"source_snapshot", "source_replicate", *streams, *verdicts})
    for dag in ("source_replicate", *verdicts):
        airflow.unpause(dag)
    snapshots = [
        airflow.ensure_running("source_snapshot", {"source": source, "mode": "auto"})
        for part in parts
        for source in part.sources
        if airflow.running("source_replicate", {"source": source}) is None
    ]
    for dag in streams:
        airflow.ensure_running(dag)
    return snapshots


def await_snapshots(airflow: Airflow, run_ids: Sequence[str], within_s: float = SNAPSHOT_WITHIN_S) -> None:
    """Return once the snapshots are complete, each within the time; raises `Terminal` when one failed."""
    for run_id in run_ids:
        state = airflow.wait("source_snapshot", run_id, within_s)
        if state != "success":
            raise Terminal("the snapshot failed", run=run_id, fix="Read the task log of this run in Airflow.")
