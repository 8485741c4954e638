"""What a person may ask of the search audit by its DAG's Params, and what its report means for the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.errors import SettingsError, Terminal

__all__ = ["SearchAuditRun", "refuse_findings"]


@dataclass(frozen=True)
class SearchAuditRun:
    """One audit of the search index against its topics."""

    topics: tuple[str, ...]

    @classmethod
    def from_params(cls, params: Mapping[str, Any], topics: Collection[str]) -> SearchAuditRun:
        """Read the Param `topics`; none means all.

        Raises:
            SettingsError: a topic is unknown or named twice, or there is nothing to audit.
        """
        asked = tuple(params.get("topics") or sorted(topics))
        if unknown := sorted(set(asked) - set(topics)):
            raise SettingsError(
                "no index is made of this topic",
                path="params.topics",
                got=unknown,
                allowed=sorted(topics),
                fix="Choose some of them, or none for all.",
            )
        if len(set(asked)) != len(asked):
            raise SettingsError("a topic is named twice", path="params.topics", got=list(asked), fix="Name it once.")
        if not asked:
            raise SettingsError(
                "no index is declared", path="indexes", fix="Declare one in the deployment files, or pause this DAG."
            )
        return cls(asked)

    def arguments(self, report: Path) -> list[str]:
        """Of `spark_apps/audit_search.py`: it writes `report` and ends with status 0, findings or not."""
        topics = [part for topic in self.topics for part in ("--topic", topic)]
        return [*topics, "--report", str(report)]


def refuse_findings(report: Mapping[str, Any]) -> int:
    """Judge a report: {"topics": {topic: {"findings": count, …}}}. Returns how many topics are clean.

    Raises:
        Terminal: some topic has findings; `fix` is the command that shows them.
    """
    findings = {topic: int(result["findings"]) for topic, result in report["topics"].items()}
    dirty = {topic: count for topic, count in findings.items() if count}
    if dirty:
        commands = " and ".join(f"`lyrebird audit search {topic}`" for topic in sorted(dirty))
        raise Terminal(
            f"the search audit is not clean: {sum(dirty.values())} findings",
            findings=dirty,
            fix=f"Run {commands} to see the keys.",
        )
    return len(findings)
