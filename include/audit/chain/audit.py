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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, Literal

from include.audit.chain.finding import ChainFinding
from include.audit.chain.group import GroupAudit
from include.audit.chain.group_comparison import versus
from include.audit.chain.listing import ProgressListener, Silent
from include.audit.chain.report import ChainReport
from include.clock import iso
from include.lake.backfill.expiry import Eraser
from include.lake.definition import LakeGroup
from include.lake.protocol.inventory import stored_topics
from include.settings.names import unknown
from include.store.object_store import ObjectStore

__all__ = ["Depth", "Options", "audit_chain"]

Depth = Literal["names", "labels", "bytes"]
"""names: listings and commits; labels: also asks for the metadata of each object, which
tell who put it; bytes: reads each object instead."""

STALE_S: Final = 3600


def _unknown(_topic: str) -> None:
    return None


@dataclass(frozen=True)
class Options:
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
    options: Options | None = None,
    progress: ProgressListener | None = None,
) -> ChainReport:
    """Audit `topic` in these groups; those that have nothing of it are left out.

    Raises:
        SettingsError: no group has the topic.
        Transient: the store did not answer: nothing can be said.
    """
    asked, watched = options or Options(), progress or Silent()
    audits = [
        GroupAudit(store, name, group, topic, watched, asked.mend)
        for name, group in sorted(groups.items(), key=lambda each: (each[1].kind, each[0]))
    ]
    found = [audit for audit in audits if audit.walk(now_us, asked.stale_s)]
    if not found:
        known = {life.topic for group in groups.values() for life in stored_topics(store, group.prefix)}
        raise unknown(topic, known, "no group of the lake has anything of this topic", groups=sorted(groups))
    for audit in found:
        audit.check_objects(labels=asked.depth == "labels")
    if asked.depth == "bytes":
        for audit in found:
            audit.read_objects(marks=[other for other in found if other is not audit])
    findings: list[ChainFinding] = [finding for audit in found for finding in audit.findings]
    differing, notes = versus(found, compacted=cache(partial(asked.compacted, topic)), deep=asked.depth == "bytes")
    findings += differing
    return ChainReport(
        topic, iso(now_us), asked.depth, tuple(audit.figures for audit in found), tuple(findings), tuple(notes)
    )
