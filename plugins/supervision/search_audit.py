"""The tasks of the DAG audit_search: what is audited, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.audit.expectations.job import arguments
from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.search.run_params import SearchAuditRun, refuse_findings
from include.errors import Terminal
from supervision.audit_tasks import begin_run, judged

__all__ = ["check_search_audit", "judge_search_audit"]


def check_search_audit(
    audits: Sequence[str],
    expecting: Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """The audits asked for, the job's arguments and where its report will be; the same for expectations.

    Args:
        audits: names in the deployment files.
        expecting: those that have expectations: `expectations <audit>` are their job's arguments, `result <audit>`
            where its result will be.
        params: the DAG's.
        run_id: the run's.
    """
    asked = SearchAuditRun.from_params(params or {}, audits=audits)
    history = begin_run("search", run_id)
    report = history.report(run_id or "")
    results = {audit: history.expectations(run_id or "", audit) for audit in expecting}
    job: dict[str, Any] = {
        "audits": list(asked.audits),
        "arguments": asked.arguments(report, results),
        "report": str(report),
    }
    for audit, result in results.items():
        job |= {f"expectations {audit}": arguments(audit, report, result), f"result {audit}": str(result)}
    return job


def judge_search_audit(report: str) -> int:
    """Fails the run when the audit has findings; returns the number of clean audits.

    Raises:
        NothingToJudge: nothing is indexed yet.
        Terminal: some audit has findings; it names the first keys of each kind, `fix` is the command that shows all.
    """
    content = judged("search", report)
    try:
        return refuse_findings(content)
    except Terminal as error:
        dirty = [row for row in rows_of("search", StoredRun("", 0, content)) if not (row.clean or row.nothing)]
        named = ". ".join(f"{row.what}: {row.said}{_keys(row.details)}" for row in dirty)
        raise Terminal(f"{error.message}. {named}", fix=error.fix) from error


def _keys(details: Sequence[str]) -> str:
    return f" ({'; '.join(details)})" if details else ""
