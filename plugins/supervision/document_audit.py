"""The tasks of the DAG audit_documents: what is compared, and what its report means for the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from include.audit.history import KeptRun
from include.audit.history_rows import rows_of
from include.errors import SettingsError, Terminal
from supervision.audit_tasks import begin_run

__all__ = ["check_document_audit", "judge_document_audit"]


def check_document_audit(
    topics: Sequence[str], nightly_share: int = 1, params: Mapping[str, Any] | None = None, run_id: str | None = None
) -> dict[str, Any]:
    """The job's arguments and where its report will be.

    Args:
        topics: entries of `documents`.
        nightly_share: one of so many parts of the keys is looked at by a scheduled run that names no share.
        params: the DAG's: `topics` (none means all), `share`, `repair`.
        run_id: the run's.

    Raises:
        SettingsError: a topic is unknown, or there is none.
    """
    asked = params or {}
    chosen = list(dict.fromkeys(asked.get("topics") or topics))
    if unknown := sorted(set(chosen) - set(topics)):
        raise SettingsError(
            "no documents of this name are declared",
            path="params.topics",
            got=unknown,
            allowed=sorted(topics),
            fix="Choose some of them, or none for all.",
        )
    if not chosen:
        raise SettingsError(
            "no documents are declared",
            path="documents",
            fix="Declare some, or pause this DAG.",
        )
    report = begin_run("document", run_id).report(run_id or "")
    names = [part for topic in chosen for part in ("--topic", topic)]
    scheduled = (run_id or "").startswith("scheduled__")
    more = ["--share", str(int(asked.get("share") or (nightly_share if scheduled else 1)))]
    more += ["--repair", run_id or "repair"] if asked.get("repair") else []
    return {"arguments": [*names, *more, "--report", str(report)], "report": str(report)}


def judge_document_audit(report: str) -> int:
    """Fails the run when documents are wrong; returns the number of clean topics.

    Raises:
        Terminal: some are; it names the first ones with their fields and tables, `fix` is the command that mends.
    """
    content = json.loads(Path(report).read_text(encoding="utf-8"))
    rows = rows_of("document", KeptRun("", 0, content))
    dirty = [row for row in rows if row.next_command]
    if dirty:
        told = ". ".join(f"{row.what}: {row.said} ({'; '.join(row.details)})" for row in dirty)
        fix = f"Run {' and '.join(f'`{row.next_command}`' for row in dirty)}."
        raise Terminal(f"the audit of documents is not clean: {told}", fix=fix)
    return sum(row.clean for row in rows)
