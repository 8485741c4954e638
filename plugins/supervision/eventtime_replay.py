"""The tasks of the DAG eventtime_replay: which days of which jobs, and what the report means for the run."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.clock import SystemClock
from include.errors import Terminal
from include.eventtime.rerun.run_params import ReplayRun
from supervision.audit_tasks import begin_run

__all__ = ["check_replay", "judge_replay"]


def check_replay(
    jobs: Sequence[str],
    params: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    dag_run: Any = None,
    logical_date: dt.datetime | None = None,
) -> dict[str, Any]:
    """The application's arguments, where its report will be, and whether a person has asked for these days by name.

    Without days it is the day before the run's; in a run of Airflow's own backfill it is the run's own day.

    Args:
        jobs: names in the deployment files.
        params: the DAG's.
        run_id: the run's.
        dag_run: the run.
        logical_date: the run's.

    Raises:
        SettingsError: a job is unknown, there is none, or the days are none.
    """
    asked = ReplayRun.from_params(params or {}, jobs=jobs)
    day = (logical_date or _now()).astimezone(dt.UTC).date()
    own = getattr(dag_run, "run_type", "") == "backfill"
    days = asked.days(day if own else day - dt.timedelta(days=1))
    report = begin_run("replay", run_id).report(run_id or "")
    dates = [word for each in days for word in ("--day", each.isoformat())]
    return {
        "arguments": [*asked.words("jobs"), *dates, "--report", str(report)],
        "report": str(report),
        "asked": bool(asked.since),
    }


def judge_replay(report: str, *, asked: bool) -> int:
    """Fails the run when an output differs, or nobody can say; returns the number of days of jobs that are the same.

    Args:
        report: file of the report.
        asked: a person wants these days: one that the live run has not come to fails the run as well.

    Raises:
        Terminal: a replay gave something else, or a day could not be replayed.
    """
    rows = rows_of("replay", StoredRun("", 0, json.loads(Path(report).read_text(encoding="utf-8"))))
    bad = [row for row in rows if not row.clean and (asked or not row.incomplete)]
    if bad:
        raise Terminal(
            "the replay of event time is not what was live: "
            + ". ".join(f"{row.what}: {row.said}{''.join(f'; {each}' for each in row.details)}" for row in bad),
            fix=" and ".join(f"`{row.next_command}`" for row in bad) + " shows it again.",
        )
    return sum(row.clean for row in rows)


def _now() -> dt.datetime:
    return dt.datetime.fromtimestamp(SystemClock().now_us() // 1_000_000, dt.UTC)
