"""The tasks of the DAG audit_join: what is audited, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.joins.run_params import JoinAuditRun
from include.errors import Terminal
from supervision.audit_tasks import begin_run, marked, require

__all__ = ["check_join_audit", "judge_join_audit"]


def check_join_audit(
    audits: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """The job's arguments and where its report will be.

    Args:
        audits: names in the deployment files.
        params: the DAG's.
        run_id: the run's.

    Raises:
        SettingsError: an audit is unknown, or there is none.
    """
    asked = JoinAuditRun.from_params(params or {}, audits=audits)
    report = begin_run("join", run_id).report(run_id or "")
    return {"arguments": [*asked.words(), "--report", str(report)], "report": str(report)}


def judge_join_audit(report: str) -> int:
    """Fails the run when an audit has findings; returns the number of clean ones.

    Raises:
        NothingToJudge: no join has written anything yet.
        Terminal: some audit has findings; it names the first keys of each kind, `fix` is the command that shows more.
            Or something is lost.
    """
    content, lost = marked("join", report)
    rows = rows_of("join", StoredRun("", 0, content))
    dirty = [row for row in rows if row.next_command]
    # What is lost alone is told as all audits tell it.
    if len(dirty) > len(lost):
        names = {row: row.what.split()[0] for row in dirty}
        shows = (row.next_command if name in lost else f"lyrebird audit join {name}" for row, name in names.items())
        raise Terminal(
            "the audit of joins is not clean: "
            + ". ".join(f"{row.what}: {row.said} ({'; '.join(row.details)})" for row in dirty),
            fix=f"Run {' and '.join(f'`{command}`' for command in dict.fromkeys(shows))} to see more.",
        )
    require("join", content, lost)
    return sum(row.clean for row in rows)
