"""The audit of a topic's chains: every offset in exactly one committed object of each group, and groups agree.

For each group:
1. the chain folders of all lives of the topic are listed (one listing),
2. commits are read, from summaries where there are any, and each chain is walked,
3. the readers' pointer is followed: no offset is left out or found twice,
4. the topic's data objects are listed and compared with what commits list,
5. with `bytes` every object is read.
Then partition groups are compared with backups.

Data objects are listed after the chains, and what was committed meanwhile is asked for again: so it runs beside
writers, backfills and expiry without a false alarm, and what is not committed yet is not judged. It writes summaries
that are due, and nothing else unless it is told to mend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, Literal

from include.audit.chain.compare import CountDifference, differences
from include.audit.chain.finding import ChainFinding, Findings, counted
from include.audit.chain.group import GroupAudit
from include.audit.chain.listing import ProgressListener, SilentListener
from include.audit.chain.report import ChainReport
from include.clock import iso
from include.lake.backfill.expiry import Eraser
from include.lake.definition import LakeGroup
from include.lake.protocol.inventory import stored_topics
from include.settings.names import unknown
from include.store.object_store import ObjectStore

__all__ = ["ChainAuditOptions", "Depth", "audit_chain"]

Depth = Literal["names", "labels", "bytes"]
"""names: listings and commits; labels: also asks for the metadata of each object, which
tell who put it; bytes: reads each object instead."""

STALE_S: Final = 3600


def _unknown(_topic: str) -> None:
    return None


@dataclass(frozen=True)
class ChainAuditOptions:
    """How an audit is made.

    `stale_s`: for how long a cut may be under way. `compacted`: whether Kafka compacts a topic, so that groups may
    differ in what they read of it, None where that is not known; asked where they do. `mend`: write wrong summaries
    anew, which need somebody who may delete, and put commits back that only a summary has.
    """

    depth: Depth = "names"
    stale_s: int = STALE_S
    mend: Eraser | None = None
    compacted: Callable[[str], bool | None] = _unknown


def audit_chain(
    store: ObjectStore,
    groups: Mapping[str, LakeGroup],
    topic: str,
    now_us: int,
    options: ChainAuditOptions | None = None,
    progress: ProgressListener | None = None,
) -> ChainReport:
    """Audit `topic` in these groups; those that have nothing of it are left out.

    Args:
        store: holds the chains and objects of all groups.
        groups: groups of the lake, by name.
        topic: name of the Kafka topic.
        now_us: time of the report, in microseconds since 1970; tells which intents are stale.
        options: how the audit is made; None: the defaults of `ChainAuditOptions`.
        progress: hears how far it is; None: nobody does.

    Raises:
        SettingsError: no group has the topic.
        Transient: the store did not answer: nothing can be said.
    """
    asked, watched = options or ChainAuditOptions(), progress or SilentListener()
    audits = [
        GroupAudit(store, name, group, topic, watched, asked.mend)
        for name, group in sorted(groups.items(), key=lambda each: (each[1].kind, each[0]))
    ]
    relevant = [audit for audit in audits if audit.walk(now_us, asked.stale_s)]
    if not relevant:
        known = {life.topic for group in groups.values() for life in stored_topics(store, group.prefix)}
        raise unknown(topic, known, "no group of the lake has anything of this topic", groups=sorted(groups))
    for audit in relevant:
        audit.check_objects(labels=asked.depth == "labels")
    if asked.depth == "bytes":
        for audit in relevant:
            audit.read_objects(marks=[other for other in relevant if other is not audit])
    findings: list[ChainFinding] = [finding for audit in relevant for finding in audit.findings]
    differing, notes = _versus(relevant, compacted=cache(partial(asked.compacted, topic)), deep=asked.depth == "bytes")
    findings += differing
    return ChainReport(
        topic, iso(now_us), asked.depth, tuple(audit.figures for audit in relevant), tuple(findings), tuple(notes)
    )


def _versus(
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
            for topic_partition, segments in audit.segments.items():
                for difference in differences(segments, backup.segments.get(topic_partition, [])):
                    if compacted():
                        notes.append(_note(audit, backup, topic_partition[1], difference))
                    else:
                        _add_difference(noted, audit, backup, topic_partition, difference, deep=deep)
            findings += noted
    return findings, notes


def _add_difference(
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
        run="" if deep else "lyrebird audit chain {topic} --deep",
    )


def _note(audit: GroupAudit, backup: GroupAudit, partition: int, each: CountDifference) -> str:
    return (
        f"{audit.name} {_amount(each)} than {backup.name} of partition {partition}, offsets {each.first} to"
        f" {each.until - 1}: the log is compacted, and the later one finds less"
    )


def _amount(each: CountDifference) -> str:
    return f"read at least {counted(abs(each.more), 'record')} {'more' if each.more > 0 else 'fewer'}"
