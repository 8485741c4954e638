"""Tells what is not there yet from what is lost: what a kept run has judged was there once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from include.audit.history import AuditKind, StoredRun
from include.audit.nothing import LOST, judged_nothing
from include.errors import NothingToJudge, Terminal

__all__ = ["mark_lost", "missed", "require_judged"]

_SECTIONS: Final[Mapping[AuditKind, str]] = {
    "search": "audits",
    "join": "audits",
    "document": "documents",
    "table": "tables",
    "chain": "topics",
}
"""Where a report has its entries by name. One of chains has, beside them, groups that have nothing."""

_COUNTS: Final[Mapping[AuditKind, tuple[str, ...]]] = {
    "join": ("expected", "held", "findings"),
    "document": ("documents", "findings"),
    "table": ("rows", "findings"),
}
"""What an entry counts, where all of it is 0 of an audit that has met nothing."""


def mark_lost(kind: AuditKind, report: dict[str, Any], kept: Iterable[StoredRun]) -> dict[str, str]:
    """What is lost, by name, with the kept run that has judged it; its entry in `report` says so from now on."""
    entries = _nothing(kind, report)
    if not entries:
        return {}
    lost: dict[str, str] = {}
    for run in kept:
        for name in entries.keys() & _judged(kind, run.report):
            lost.setdefault(name, run.run_id)
            entries[name]["verdict"] = LOST
    return lost


def missed(kind: AuditKind, kept: Iterable[StoredRun], present: Collection[str]) -> dict[str, bool]:
    """What was judged and is not present: its name, and whether the newest kept run that names it tells it as lost."""
    judged, newest = set[str](), dict[str, dict[str, Any]]()
    for run in kept:
        judged |= _judged(kind, run.report)
        for name, entry in _entries(kind, run.report).items():
            newest.setdefault(name, entry)
    return {name: newest.get(name, {}).get("verdict") == LOST for name in sorted(judged - {*present})}


def require_judged(kind: AuditKind, report: Mapping[str, Any], lost: Mapping[str, str]) -> list[str]:
    """A line for each part of a report of which nothing is yet.

    Args:
        kind: of the audit.
        report: as JSON.
        lost: as `mark_lost` tells it.

    Raises:
        Terminal: something is lost.
        NothingToJudge: the report has judged nothing.
    """
    entries = _nothing(kind, report)
    if lost:
        told = "; ".join(f"{name} (run {run}): {entries[name]['error']}" for name, run in sorted(lost.items()))
        raise Terminal(
            f"what an earlier run has judged is not there any more: {told}",
            fix="`lyrebird status` tells what runs. Bring it back; where it was taken away on purpose, take it out of"
            " the deployment files.",
        )
    lines = [f"nothing to judge: {name}: {entry['error']}" for name, entry in sorted(entries.items())]
    if len(entries) == len(_entries(kind, report)):
        raise NothingToJudge("; ".join(lines) or "nothing to judge: nothing of it is there yet")
    return lines


def _nothing(kind: AuditKind, report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: entry for name, entry in _entries(kind, report).items() if judged_nothing(entry)}


def _entries(kind: AuditKind, report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    groups = {f"group {name}": entry for name, entry in report.get("nothing", {}).items()}
    return {**report.get(_SECTIONS[kind], {}), **groups}


def _judged(kind: AuditKind, report: Mapping[str, Any]) -> set[str]:
    section = report.get(_SECTIONS.get(kind, ""), {})
    judged = {name for name, entry in section.items() if not judged_nothing(entry) and not entry.get("error")}
    if kind == "search":
        # Of a version without verdicts: an empty window that is clean had nothing in it.
        judged = {n for n in judged if not section[n].get("clean") or any(section[n].get("window", {"": 1}).values())}
    if kind in _COUNTS:
        # A run that has met nothing is no proof that something was there; earlier versions called it clean.
        return {n for n in judged if any(section[n].get(count) for count in _COUNTS[kind])}
    if kind != "chain":
        return judged
    groups = [group for entry in section.values() for group in entry.get("groups", ())]
    empty = {n for n in judged if not section[n].get("findings") and section[n].get("groups") == []}
    empty |= {n for n in judged if (of := section[n].get("groups")) and not any(map(_had, of))}
    return (judged - empty) | {f"group {group['group']}" for group in groups if _had(group)}


def _had(group: Mapping[str, Any]) -> bool:
    """Whether something of a group was judged; a version that does not say so counted what it read."""
    counted = [group.get("commits"), group.get("objects")]
    return bool(group.get("judged", counted == [None, None] or any(counted)))
