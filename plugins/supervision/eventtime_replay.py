"""The tasks of the DAG eventtime_replay: which days of which jobs, and what the report means for the run."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from include.audit.history import KeptRun
from include.audit.history_rows import rows_of
from include.clock import SystemClock
from include.errors import SettingsError, Terminal
from supervision.audit_tasks import begin_run

__all__ = ["check_replay", "judge_replay"]

_MOST_DAYS: Final = 366
_ONE: Final = dt.timedelta(days=1)


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
        params: the DAG's: `jobs` (none means all), `from`, `to`.
        run_id: the run's.
        dag_run: the run.
        logical_date: the run's.

    Raises:
        SettingsError: a job is unknown, there is none, or the days are none.
    """
    given = dict(params or {})
    asked = list(dict.fromkeys(given.get("jobs") or jobs))
    if unknown := sorted(set(asked) - set(jobs)):
        raise SettingsError(
            "no job of this name is declared",
            path="params.jobs",
            got=unknown,
            allowed=sorted(jobs),
            fix="Choose some of them, or none for all.",
        )
    if not asked:
        raise SettingsError(
            "no job is declared",
            path="eventtime",
            fix="Declare one in section `eventtime` of the deployment files, or pause this DAG.",
        )
    days = _days(given, getattr(dag_run, "run_type", "") == "backfill", logical_date or _now())
    report = begin_run("replay", run_id).report(run_id or "")
    names = [part for name in asked for part in ("--job", name)]
    dates = [part for day in days for part in ("--day", day.isoformat())]
    return {
        "arguments": [*names, *dates, "--report", str(report)],
        "report": str(report),
        "asked": bool(given.get("from")),
    }


def judge_replay(report: str, *, asked: bool) -> int:
    """Fails the run when an output differs, or nobody can say; returns the number of days of jobs that are the same.

    Args:
        report: file of the report.
        asked: a person wants these days: one that the live run has not come to fails the run as well.

    Raises:
        Terminal: a replay gave something else, or a day could not be replayed.
    """
    rows = rows_of("replay", KeptRun("", 0, json.loads(Path(report).read_text(encoding="utf-8"))))
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


def _days(given: Mapping[str, Any], own: bool, logical_date: dt.datetime) -> list[dt.date]:
    try:
        first, last = (dt.date.fromisoformat(text) if text else None for text in (given.get("from"), given.get("to")))
    except ValueError as error:
        raise SettingsError("not a day", path="params", reason=str(error), allowed="such as 2026-11-02") from error
    if first is None:
        if last is not None:
            raise SettingsError("a last day without a first one", path="params.from", fix="Give the first day too.")
        day = logical_date.astimezone(dt.UTC).date()
        return [day if own else day - _ONE]
    last = first if last is None else last
    count = (last - first).days + 1
    if not 1 <= count <= _MOST_DAYS:
        raise SettingsError(
            "not a range of days", path="params.to", got=f"{first} to {last}", allowed=f"1 to {_MOST_DAYS} days"
        )
    return [first + number * _ONE for number in range(count)]
