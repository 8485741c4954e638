"""The proof at the demo's end: the chains of all topics of the lake, every object read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from demo.part_summary import PartSummary
from include.clock import Clock

if TYPE_CHECKING:
    from include.audit.chain.report import ChainReport

__all__ = ["audited", "told_of"]


def audited(clock: Clock) -> PartSummary:
    """Audit what the groups have now; a `ClosePart`. Raises the store's errors."""
    from include.audit.chain.audit import ChainAuditOptions
    from include.audit.chain.platform import audit_on_servers
    from include.audit.chain.run_params import ChainAuditRun
    from include.settings.deployment import Deployment

    return told_of(list(audit_on_servers(Deployment.load(), ChainAuditRun(), clock, ChainAuditOptions(depth="bytes"))))


def told_of(reports: Sequence[ChainReport]) -> PartSummary:
    """One line when all is clean, and what was found otherwise."""
    from include.audit.chain.report import audit_line

    findings = [finding for report in reports for finding in report.findings]
    lines = [
        f"lake {audit_line(reports)}",
        *(line for report in reports if not report.clean for line in report.lines()),
    ]
    judged = [report for report in reports if report.verdict != "nothing"]
    values = {"topics": len(judged), "findings": [finding.to_json() for finding in findings]}
    return PartSummary(tuple(lines), {"chain_audit": values}, bool(judged) and not findings)
