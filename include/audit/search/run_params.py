"""Parameters of a run of the search audit, and the verdict on its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from include.audit.nothing import judged_nothing
from include.audit.search.audit import AuditMode
from include.errors import Terminal
from include.settings.run import Names, RunParams, every, knob

__all__ = ["SearchAuditRun", "refuse_findings"]


class SearchAuditRun(RunParams):
    """One run of search audits, by their names in the deployment files."""

    audits: Names = every("audit", "--audit", "audits")
    mode: AuditMode = knob(
        "digest: sums over states, every difference. bisect: counts over ranges of keys, missing keys.", "digest"
    )
    repair: bool = knob("Write anew from the topic what is wrong, and audit again.", False)

    def arguments(self, report: Path, expectations: Mapping[str, Path]) -> list[str]:
        """Of `spark_apps/audit_search.py`: it writes `report` and ends with status 0, findings or not.

        `expectations` are files for what the expectations of audits come to; those of other audits are left out.
        """
        asked = [(audit, file) for audit, file in expectations.items() if audit in self.audits]
        results = [word for audit, file in asked for word in ("--expectations", audit, str(file))]
        return [*self.words(), *results, "--report", str(report)]


def refuse_findings(report: Mapping[str, Any]) -> int:
    """Judge a report: {"audits": {name: {"findings": count, …}}}.

    Returns how many are clean; what judged nothing is not.

    Raises:
        Terminal: some audit has findings; `fix` is the command that shows them.
    """
    findings = {name: int(result["findings"]) for name, result in report["audits"].items()}
    dirty = {name: count for name, count in findings.items() if count}
    if dirty:
        commands = " and ".join(f"`lyrebird audit search {name}`" for name in sorted(dirty))
        raise Terminal(
            f"the search audit is not clean: {sum(dirty.values())} findings",
            findings=dirty,
            fix=f"Run {commands} to see the keys.",
        )
    return sum(not judged_nothing(result) for result in report["audits"].values())
