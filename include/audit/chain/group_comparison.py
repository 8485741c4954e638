"""Partition groups against backups of the same topic: they must have read the same records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from include.audit.chain.compare import CountDifference, differences
from include.audit.chain.finding import ChainFinding, Findings, counted
from include.audit.chain.group import GroupAudit

__all__ = ["versus"]


def versus(
    audits: Sequence[GroupAudit], *, compacted: Callable[[], bool | None], deep: bool
) -> tuple[list[ChainFinding], list[str]]:
    """Findings and notes about counts, each partition group against each backup, up to the lower head.

    Of a log that is compacted a group that reads later reads less: then a difference is no fault. `compacted` is asked
    where there is one.
    """
    findings: list[ChainFinding] = []
    notes: list[str] = []
    backups = [audit for audit in audits if audit.kind == "backup"]
    for audit in (each for each in audits if each.kind != "backup"):
        for backup in backups:
            noted = Findings(audit.name)
            for place, segments in audit.segments.items():
                for each in differences(segments, backup.segments.get(place, [])):
                    if compacted():
                        notes.append(_note(audit, backup, place[1], each))
                    else:
                        _add(noted, audit, backup, place, each, deep=deep)
            findings += noted
    return findings, notes


def _add(
    noted: Findings, audit: GroupAudit, backup: GroupAudit, place: tuple[str, int], each: CountDifference, *, deep: bool
) -> None:
    chain = audit.chain_at(place, each.first)
    noted.add(
        "counts differ",
        chain,
        f"{_amount(each)} than {backup.name}: records were left out or stored twice (or, if the log is compacted, one"
        " group read it later)",
        first=each.first,
        until=each.until,
        run="" if deep else "lyrebird lake audit {topic} --deep",
    )


def _note(audit: GroupAudit, backup: GroupAudit, partition: int, each: CountDifference) -> str:
    return (
        f"{audit.name} {_amount(each)} than {backup.name} of partition {partition}, offsets {each.first} to"
        f" {each.until - 1}: the log is compacted, and the later one finds less"
    )


def _amount(each: CountDifference) -> str:
    return f"read at least {counted(abs(each.more), 'record')} {'more' if each.more > 0 else 'fewer'}"
