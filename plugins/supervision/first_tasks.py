"""The first tasks of the DAGs: they look at what runs here and let `include` decide. Wrapped by `refusing`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from include.errors import Terminal, Transient
from include.lake.backfill.run_params import BackfillRun
from include.lake.run_params import UploadRun, due
from include.settings.environment import PROJECT_ROOT
from include.source.run_params import ReplicationRun, SnapshotRun, capture_application, refuse_unless_snapshotted
from supervision.decisions import is_down
from supervision.launch import application_environment
from supervision.refusing import refuses
from supervision.run_folder import run_folder

__all__ = [
    "check_backfill",
    "check_replication",
    "check_snapshot",
    "check_upload",
    "choose_snapshot",
    "lyrebird_argv",
    "unless_dry_run",
]

_STATUS_WITHIN_S = 120


def lyrebird_argv(arguments: Sequence[str]) -> list[str]:
    """The `lyrebird` command of this installation."""
    return [sys.executable, "-m", "include", *arguments]


def check_snapshot(
    sources: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """How this snapshot is to be taken: `way`, and the command of each way."""
    asked = SnapshotRun.from_params(params or {}, source=sources)
    application = capture_application(asked.source)
    folder = run_folder(application)
    seen = folder.observe()
    down = is_down(seen, folder.down()[0], "source_replicate")
    return {
        "way": asked.way(capture_runs=seen.held, down_owner=seen.run.owner if down and seen.run else None),
        "application": application,
        "request": asked.request_arguments(request_id=f"source_snapshot:{run_id}"),
        "start": lyrebird_argv(asked.start_arguments()),
        "plan": asked.plan_arguments(),
    }


def choose_snapshot(
    sources: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None, ti: Any = None
) -> str:
    """`check_snapshot` as a branch: leaves the plan as XComs by their names, and returns the task of its way."""
    plan = check_snapshot(sources, params, run_id)
    for name, value in plan.items():
        ti.xcom_push(name, value)
    return str(plan["way"])


def check_replication(
    params: Mapping[str, Any] | None = None, run_id: str | None = None, dag: Any = None
) -> dict[str, Any]:
    """The capture to run, once its source has a snapshot.

    Raises:
        AirflowSkipException: it already runs, and the run was asked not to mind.
        Terminal: it already runs for another run; or there is no snapshot yet.
    """
    asked = ReplicationRun.from_params(params or {})
    source = asked.source
    application = capture_application(source)
    seen = run_folder(application).observe()
    running = seen.run if seen.held else None
    mine = running is not None and running.owner.startswith(f"{dag.dag_id}|{run_id}|")
    if running is not None and not mine:
        if asked.unless_running:
            raise AirflowSkipException(f"{application} already runs for {running.owner}: nothing to start")
        raise Terminal(
            f"{application} already runs",
            owner=running.owner,
            fix="Nothing needs to be started; to start it afresh, mark that run failed first.",
        )
    if not mine:
        # What is taken over as it runs needs neither; the servers may be away, which it rides out.
        refuse_unless_snapshotted(source, _capture_status(source))
    return {"application": application, "argv": lyrebird_argv(["capture", "run", "--source", source])}


def check_upload(
    groups: Sequence[str],
    by_schedule: Mapping[str, str],
    params: Mapping[str, Any] | None = None,
    dag_run: Any = None,
    logical_date: Any = None,
    prev_data_interval_end_success: Any = None,
) -> dict[str, Any]:
    """The upload's arguments: of a run that Airflow has scheduled, groups whose time has come.

    Args:
        groups: names that the run may choose among.
        by_schedule: group → cron, of those on a schedule.
        params: of the run.
        dag_run: Airflow's run of the DAG.
        logical_date: of the run; None of one that nobody has given a date.
        prev_data_interval_end_success: end of the last run's interval that went well; None: none did.

    Raises:
        AirflowSkipException: no group was named, and none is on a schedule.
    """
    scheduled = list(by_schedule)
    if getattr(dag_run, "run_type", "") == "scheduled" and logical_date is not None:
        # Not of this minute alone: a run that takes long lets others be left out.
        scheduled = due(by_schedule, prev_data_interval_end_success or None, logical_date)
    params = params or {}
    asked = UploadRun.from_params({**params, "groups": params.get("groups") or scheduled}, groups=groups)
    if not asked.groups:
        raise AirflowSkipException("no group of the lake is on a schedule: set `run: schedule`, or name one")
    return {"arguments": asked.words()}


def check_backfill(
    groups: Sequence[str],
    params: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    dag_run: Any = None,
    logical_date: Any = None,
) -> dict[str, Any]:
    """The commands of a backfill; the day of a run of Airflow's own backfill is its logical date.

    `skips`: whether a day without records is none that anybody asked for by name.
    """
    own = getattr(dag_run, "run_type", "") == "backfill" and logical_date is not None
    asked = BackfillRun.of(params or {}, groups, run_id or "", logical_date.date() if own else None)
    request = asked.request_arguments()
    return {
        "plan": ["lake", "backfill", *request, "--dry-run"],
        "skips": own,
        "arguments": request,
        "promote": asked.promote_arguments(),
    }


def unless_dry_run(params: Mapping[str, Any] | None = None) -> bool:
    """Whether a backfill goes on behind its plan."""
    return not (params or {}).get("dry_run")


def _capture_status(source: str) -> dict[str, Any]:
    ended = subprocess.run(  # noqa: S603 - our own command
        lyrebird_argv(["capture", "status", "--source", source, "--json"]),
        capture_output=True,
        text=True,
        env=application_environment(),
        cwd=PROJECT_ROOT,
        timeout=_STATUS_WITHIN_S,
        check=False,
    )
    lines = (ended.stdout if ended.returncode == 0 else ended.stderr).strip().splitlines() or [""]
    if ended.returncode != 0:
        kind = Terminal if refuses(ended.returncode, lines[-1]) else Transient
        raise kind(
            f"lyrebird capture status: {lines[-1].removeprefix('error: ')}", source=source, status=ended.returncode
        )
    status: dict[str, Any] = json.loads(ended.stdout)
    return status
