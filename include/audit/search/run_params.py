"""What a person may ask of the search audit by its DAG's Params, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from include.audit.search.audit import Mode
from include.errors import SettingsError, Terminal

__all__ = ["SearchAuditRun", "refuse_findings"]


@dataclass(frozen=True)
class SearchAuditRun:
    """One run of search audits, by their names in the deployment files."""

    audits: tuple[str, ...]
    mode: str = "digest"
    repair: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any], audits: Collection[str]) -> SearchAuditRun:
        """Read the Params `audits` (none means all), `mode` and `repair`.

        Raises:
            SettingsError: an audit or the mode is unknown, an audit is named twice, or there is nothing to audit.
        """
        asked = tuple(params.get("audits") or sorted(audits))
        if unknown := sorted(set(asked) - set(audits)):
            raise SettingsError(
                "no audit of this name is declared",
                path="params.audits",
                got=unknown,
                allowed=sorted(audits),
                fix="Choose some of them, or none for all.",
            )
        if len(set(asked)) != len(asked):
            raise SettingsError("an audit is named twice", path="params.audits", got=list(asked), fix="Name it once.")
        if not asked:
            raise SettingsError(
                "no audit is declared", path="audits", fix="Declare one in the deployment files, or pause this DAG."
            )
        mode = params.get("mode", "digest")
        if mode not in get_args(Mode):
            raise SettingsError("no such mode", path="params.mode", got=mode, allowed=sorted(get_args(Mode)))
        return cls(asked, mode, bool(params.get("repair", False)))

    def arguments(self, report: Path, expectations: Mapping[str, Path]) -> list[str]:
        """Of `spark_apps/audit_search.py`: it writes `report` and ends with status 0, findings or not.

        `expectations` are files for what the expectations of audits come to; those of other audits are left out.
        """
        names = [part for name in self.audits for part in ("--audit", name)]
        how = [] if self.mode == "digest" else ["--mode", self.mode]
        how += ["--repair"] if self.repair else []
        asked = [(audit, file) for audit, file in expectations.items() if audit in self.audits]
        how += [part for audit, file in asked for part in ("--expectations", audit, str(file))]
        return [*names, *how, "--report", str(report)]


def refuse_findings(report: Mapping[str, Any]) -> int:
    """Judge a report: {"audits": {name: {"findings": count, …}}}. Returns how many are clean.

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
    return len(findings)
