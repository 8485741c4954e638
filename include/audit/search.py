"""The search audit: which documents of a topic an index lacks, and which it holds that it should not.

1. the index's progress document says up to which offsets it has settled everything (the cut),
2. a refresh, then a point in time: what was settled is visible in it,
3. the newest record of each key below the cut gives the expected keys,
4. counts over ranges of keys, limited to offsets below the cut, are compared and split where they differ,
5. what differs is asked for again in realtime, without the limit: a document that was written since lies above the
   cut on one side only and is no finding.

So writes may go on meanwhile without a false alarm, and what lies above the cut is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from include.audit.bisect import bisect
from include.audit.definition import SearchAuditSpec
from include.audit.expected import Expected
from include.audit.range_count import IndexView, Seen, Window
from include.audit.report import SearchReport
from include.clock import Clock, iso
from include.errors import Terminal
from include.index.generation import IndexName
from include.index.mapping import require_metadata
from include.index.port import SearchIndex
from include.index.progress import read_progress
from include.log.ports import LogReader, TopicAdmin

__all__ = ["audit_search"]


def audit_search(
    spec: SearchAuditSpec,
    *,
    index: SearchIndex,
    view: Callable[[str, Window], IndexView],
    expected: Callable[[Window], Expected],
    admin: TopicAdmin,
    reader: LogReader,
    clock: Clock,
) -> SearchReport:
    """Run the audit; reads only. May be run again and beside the application that writes the index.

    Args:
        spec: what to audit.
        index: the server.
        view: opens a moment of a concrete index, limited to a window.
        expected: the expected keys below a window.
        admin: tells the topic's id.
        reader: tells the topic's end.
        clock: for the report's time.

    Raises:
        Terminal: it cannot be said: no index, nothing indexed yet, or the topic was made anew.
        Transient: a server did not answer, or for a part only.
    """
    definition, topic = spec.index, spec.index.topic
    name = str(IndexName(spec.alias, definition.generation))
    info = index.describe(name)
    if info is None:
        raise Terminal("index does not exist", index=name, fix=f"Run `lyrebird index create {spec.alias}`.")
    require_metadata(name, info.mapping)
    progress = read_progress(index, info, topic)
    if progress is None or not progress.acked:
        raise Terminal(
            "nothing was indexed yet, so there is nothing to compare",
            index=name,
            topic=topic,
            fix=f"Start the application {definition.application}.",
        )
    found = admin.describe(topic)
    if found is None or found.topic_id != progress.topic_ids.get(topic):
        raise Terminal(
            "topic is not the one that the index was filled from",
            topic=topic,
            topic_id=found.topic_id if found else None,
            indexed=progress.topic_ids.get(topic),
            fix="Raise `generation` of the index in the deployment file, create it, and start its application again.",
        )
    window = {p: progress.acked.get(p, 0) for p in range(found.partitions)}
    index.refresh(name)
    moment = view(name, window)
    try:
        keys = expected(window)
        walk = bisect(keys.keys, moment)
        asked = [*walk.missing, *walk.extra]
        now = moment.now(asked) if asked else {}
    finally:
        moment.close()
    missing = tuple(key for key in walk.missing if _lacks(now.get(key), window))
    extra = tuple(key for key in walk.extra if _holds(now.get(key), window))
    ends = reader.end_offsets(topic)
    return SearchReport(
        audit=spec.name,
        topic=topic,
        index=name,
        at=iso(clock.now_us()),
        window=window,
        position=progress.complete.to_json() if progress.complete else None,
        uncovered=progress.uncovered,
        expected=len(keys.keys),
        indexed=walk.indexed,
        missing=missing,
        extra=extra,
        in_flight=len(asked) - len(missing) - len(extra),
        behind=_behind(ends, window),
        unreadable=keys.unreadable,
        requests=moment.requests,
        listed=walk.listed,
        levels=tuple(walk.levels),
    )


def _lacks(seen: Seen | None, window: Window) -> bool:
    """Whether an expected document is really not there: absent, or deleted by a record from below the cut."""
    return seen is None or (seen.deleted and seen.offset < window.get(seen.partition, 0))


def _holds(seen: Seen | None, window: Window) -> bool:
    """Whether an unexpected document is really there, as written from below the cut."""
    return seen is not None and not seen.deleted and seen.offset < window.get(seen.partition, 0)


def _behind(ends: Mapping[int, int], window: Window) -> int:
    return sum(max(0, end - window.get(partition, 0)) for partition, end in ends.items())
