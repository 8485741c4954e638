"""The tasks of the DAG audit_documents: what is compared, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.audit.documents.run_params import NIGHTLY_SHARE, DocumentsAuditRun
from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.errors import Terminal
from supervision.audit_tasks import begin_run, marked, require

__all__ = ["check_document_audit", "judge_document_audit"]


def check_document_audit(
    topics: Sequence[str], params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """The job's arguments and where its report will be.

    Args:
        topics: entries of `documents`.
        params: the DAG's.
        run_id: the run's.

    Raises:
        SettingsError: a topic is unknown, or there is none.
    """
    asked = DocumentsAuditRun.from_params(params or {}, topics=topics)
    if asked.share is None and (run_id or "").startswith("scheduled__"):
        asked = asked.model_copy(update={"share": NIGHTLY_SHARE})
    report = begin_run("document", run_id).report(run_id or "")
    repair = ["--repair", run_id or "repair"] if asked.repair else []
    return {"arguments": [*asked.words("topics", "share"), *repair, "--report", str(report)], "report": str(report)}


def judge_document_audit(report: str) -> int:
    """Fails the run when documents are wrong; returns the number of clean topics.

    Raises:
        NothingToJudge: no document is there yet.
        Terminal: some are; it names the first ones with their fields and tables, `fix` is the command that mends. Or
            something is lost.
    """
    content, lost = marked("document", report)
    rows = rows_of("document", StoredRun("", 0, content))
    dirty = [row for row in rows if row.next_command]
    # What is lost alone is told as all audits tell it.
    if len(dirty) > len(lost):
        told = ". ".join(f"{row.what}: {row.said} ({'; '.join(row.details)})" for row in dirty)
        fix = f"Run {' and '.join(f'`{command}`' for command in dict.fromkeys(row.next_command for row in dirty))}."
        raise Terminal(f"the audit of documents is not clean: {told}", fix=fix)
    require("document", content, lost)
    return sum(row.clean for row in rows)
