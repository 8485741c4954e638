"""Parameters of the DAG audit_join and of `lyrebird audit join`."""

from __future__ import annotations

from include.settings.run import NamesOnce, RunParams, every, knob

__all__ = ["JoinAuditRun"]


class JoinAuditRun(RunParams):
    """One run of audits of joins, by their names in the deployment files."""

    audits: NamesOnce = every("audit of a join", "--audit", "audits")
    sample: int = knob("Compare one of so many outputs.", 1, ge=1)
