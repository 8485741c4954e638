"""The tasks of the DAG audit_chain: what is audited, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.audit.chain.run_params import ChainAuditRun, verdict_of
from supervision.audit_tasks import begin_run, judged
from supervision.refusing import NoRetry

__all__ = ["check_chain_audit", "judge_chain_audit"]


def check_chain_audit(
    groups: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """The audit's command, and where its report will be."""
    asked = ChainAuditRun.from_params(params or {}, groups=groups)
    report = begin_run("chain", run_id).report(run_id or "")
    return {"arguments": asked.arguments(report), "report": str(report)}


def judge_chain_audit(report: str) -> str:
    """Fails the run when there are findings; its mail has the command that shows them. Raises as `judged`."""
    verdict = verdict_of(judged("chain", report))
    if verdict.findings:
        raise NoRetry(verdict.text, verdict.next_command)
    return verdict.text
