"""The search audit: which documents of a topic an index lacks, holds in another state, or holds without reason.

1. the cut: offsets below which everything is settled in the index (`cut`),
2. the newest record of each key below the cut says what is expected; where that took long, the cut is taken again,
3. a point in time, which sees all of it,
4. where both sides differ is found by sums over states (`digest`), or by counts over ranges of keys (`bisect`),
5. what differs is asked for again in realtime: a document that was written since from above the cut is no finding,
6. documents whose newest state never came into the topic are told by its dead letters (`set_aside`).

So writes may go on meanwhile without a false alarm, and what lies above the cut is not judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypedDict, Unpack

from include.audit.definition import SearchAuditSpec
from include.audit.nothing import NothingJudged
from include.audit.search.bisect import Bisection, bisect
from include.audit.search.bounds import NO_LOWS, Window, parts_of
from include.audit.search.conservation import answers_for_index, look_beside
from include.audit.search.cut import AuditCut, cut
from include.audit.search.digest import digest_by_parts
from include.audit.search.expected import ExpectedSide
from include.audit.search.last_audit import LastAuditNote
from include.audit.search.repair import repair
from include.audit.search.report import SearchReport
from include.audit.search.scrub import Scrubber, ScrubMode
from include.audit.search.set_aside import still_set_aside
from include.audit.search.sides import AuditSides
from include.audit.search.verdict import judge, judge_counted
from include.audit.search.views.range_count import IndexView, SeenDocument
from include.audit.search.views.state_view import MOST_ABOVE, IndexState, StateView, far_ahead
from include.clock import iso
from include.errors import NothingToJudge, Transient
from include.index.progress.grown_topics import require_no_growth

__all__ = [
    "AuditMode",
    "AuditedSearch",
    "SearchAuditSettings",
    "Since",
    "audit_and_repair",
    "audit_search",
    "examine",
    "judged_or_nothing",
]

AuditMode = Literal["digest", "bisect"]
"""bisect: the original, by counts; finds missing keys. digest: by sums over states; finds every difference."""

Since = Literal["begin", "last"]
"""begin: from the topic's beginning. last: from the cut of the last clean audit of this index."""
_BULK_S: Final = 10.0
_REFRESH: Final = 1
_AT_ONCE: Final = 10_000
_FEW: Final = 50_000
"""So many offsets behind a cut are not worth to fold again."""
_LONG_S: Final = 5.0
_MOST_FOLDS: Final = 5


class SearchAuditSettings(TypedDict, total=False):
    """How to audit."""

    mode: AuditMode
    scrub: ScrubMode
    since: Since | Window
    wait_s: float | None


@dataclass(frozen=True)
class AuditedSearch:
    """An audit's report with what it was made of."""

    report: SearchReport
    at: AuditCut
    expected: ExpectedSide


def audit_search(spec: SearchAuditSpec, sides: AuditSides, **how: Unpack[SearchAuditSettings]) -> SearchReport:
    """`examine`, and its report alone."""
    return examine(spec, sides, **how).report


def judged_or_nothing(
    spec: SearchAuditSpec, sides: AuditSides, *, repair: bool = False, **how: Unpack[SearchAuditSettings]
) -> SearchReport | NothingJudged:
    """The report of `audit_search` or `audit_and_repair`, or that nothing is there yet that could be judged.

    An audit that finds both sides without a record has judged nothing either. Raises as `examine` otherwise.
    """
    began_at = iso(sides.clock.now_us())
    try:
        report = (audit_and_repair if repair else audit_search)(spec, sides, **how)
    except NothingToJudge as nothing:
        return NothingJudged.of(spec.name, began_at, nothing, spec.topic)
    if report.clean and not any(report.window.values()):
        why = f"the topic {spec.topic} has no record yet, and {report.index} no document."
        return NothingJudged(spec.name, began_at, why, spec.topic)
    return report


def audit_and_repair(spec: SearchAuditSpec, sides: AuditSides, **how: Unpack[SearchAuditSettings]) -> SearchReport:
    """Audit, mend what was found, and audit again: the second report, which tells of the first and of the repair.

    A first report that is clean, or that names no key, is given as it is. Raises as `examine` and `repair`.
    """
    examined = examine(spec, sides, **how)
    keys = examined.report.keys
    if not keys:
        return examined.report
    name = examined.at.info.name
    moment = sides.states(name, spec, examined.at.bounds)
    try:
        copies = moment.now(keys, everywhere=True)
    finally:
        moment.close()
    mended = repair(
        name, spec, keys, examined.expected, copies, examined.at.bounds, sides.writing(name, spec, examined.at)
    )
    again = audit_search(spec, sides, **how)
    first = {kind: list(ids) for kind, ids in examined.report.by_kind.items()}
    return replace(again, repaired={"found": first, **mended.to_json()})


def examine(
    spec: SearchAuditSpec,
    sides: AuditSides,
    *,
    mode: AuditMode = "digest",
    scrub: ScrubMode = "changed",
    since: Since | Window = "begin",
    wait_s: float | None = None,
) -> AuditedSearch:
    """Run the audit. It changes no document, and may be run again and beside the application that writes the index.

    Only how far it came is noted beside the index's progress.

    Args:
        spec: what to audit.
        sides: the servers, or doubles of them.
        mode: how differences are found.
        scrub: which documents a `digest` reads whole, to see whether their bodies are those that were added up.
        since: low watermarks of a `bisect`: only keys whose newest record lies from these offsets on are compared.
        wait_s: how long at most to wait until the index has acknowledged what is in the topic at the start; as long
            as a slow bulk takes by default for a `bisect`, and not at all for a `digest`.

    Raises:
        NothingToJudge: there is no index yet, or nothing was indexed yet.
        Terminal: it cannot be said: what was there is gone, or the topic was made anew or has grown.
        Transient: a server did not answer, or for a part only.
    """
    if sides.admin.describe(spec.topic) is not None:
        require_no_growth(spec.index, spec.topic, sides.admin, sides.reader)
    at = _cut(spec, sides, spec.alias, wait_s if wait_s is not None else _BULK_S if mode == "bisect" else 0.0)
    examined = _by_digest(spec, sides, at, scrub) if mode == "digest" else _by_counts(spec, sides, at, since)
    undeclared = sides.undeclared(at.info.name, spec) if answers_for_index(spec) else {}
    beside = look_beside(spec, at, sides.declared(spec), undeclared)
    behind = at.behind(sides.reader.end_offsets(spec.topic))
    aside = still_set_aside(spec, sides, examined.at, examined.expected)
    return replace(examined, report=replace(examined.report, behind=behind, beside=beside, set_aside=aside))


def _cut(spec: SearchAuditSpec, sides: AuditSides, name: str, wait_s: float = 0.0) -> AuditCut:
    topic = spec.index.topics[spec.topic]
    return cut(
        name,
        spec.topic,
        spec.index.application,
        index=sides.index,
        admin=sides.admin,
        reader=sides.reader,
        clock=sides.clock,
        wait_s=wait_s,
        generation=topic.generation,
        keyed=topic.key != "none",
    )


def _folded(spec: SearchAuditSpec, sides: AuditSides, at: AuditCut) -> tuple[ExpectedSide, AuditCut]:
    """The topic's side, and the cut that it was folded below.

    Folding a topic takes time, in which the index goes on: so the cut is taken again behind it, until little came
    after it. Only then is a moment of the index opened, which holds disk there for as long as it stays open.
    """
    for _ in range(_MOST_FOLDS):
        began_s = sides.clock.monotonic_s()
        expected = sides.expected(spec, at)
        if sides.clock.monotonic_s() - began_s < _LONG_S:
            return expected, at
        newer = _cut(spec, sides, at.info.name)
        if newer.info.uuid != at.info.uuid:
            raise Transient("the index was made anew meanwhile", system="elasticsearch", index=at.info.name)
        if at.behind(newer.window) <= _FEW:
            return expected, at
        at = newer
    return sides.expected(spec, at), at


def _by_digest(spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, scrub: ScrubMode) -> AuditedSearch:
    expected, at = _folded(spec, sides, at)
    moment = sides.states(at.info.name, spec, at.bounds)
    try:
        at = _held(spec, sides, at, expected, moment)
        digested = digest_by_parts(expected, moment, at.bounds, at.info.name)
        # What cannot be read is in no sum of the topic's, what has no digest in none of the index's.
        unsummed = {*(r.doc_id for r in expected.spoilt()), *(d.doc_id for d in digested.stateless)} - digested.above
        suspects = {*(r.doc_id for r in digested.more), *(d.doc_id for d in digested.less), *unsummed}
        everywhere = spec.index.topics[spec.topic].routing is not None or any(d.routing for d in digested.less)
        now = dict(moment.now(suspects, everywhere=everywhere)) if suspects else {}
        if at.bounds.starts:
            # Sums leave out documents from below the log's start: of those only a tombstone in the log can be judged.
            now |= _undeleted(expected, moment, everywhere=everywhere)
        unproven = moment.unproven()
    finally:
        moment.close()
    suspects |= now.keys()
    verdict = judge(suspects, expected.of(suspects), now, at.bounds)
    note = LastAuditNote(sides.index, at.info, spec.topic)
    scrubber = Scrubber(note.last, sides.documents(at.info.name, spec))
    scrubbed = scrubber.run(scrub) if scrub != "none" else None
    if not verdict.findings and not digested.left and not digested.unsettled and not (scrubbed and scrubbed.altered):
        note.keep(window=at.window, generation=at.bounds.generation, **(scrubber.done() if scrubbed else {}))
    altered = {*verdict.altered, *(scrubbed.altered if scrubbed else ())} - {*verdict.extra, *verdict.stale}
    report = replace(
        _report(spec, sides, at, expected, "digest"),
        expected=digested.expected,
        indexed=digested.indexed,
        missing=verdict.missing,
        extra=verdict.extra,
        stale=verdict.stale,
        altered=tuple(sorted(altered)),
        in_flight=verdict.in_flight + len(digested.above),
        unproven=unproven,
        requests=moment.requests + _REFRESH,
        received_bytes=moment.received,
        listed=digested.listed,
        bits=digested.bits,
        differing=len(digested.more) + len(digested.less),
        unresolved_buckets=digested.left,
        unsettled=digested.unsettled,
        scrub=scrubbed.to_json() if scrubbed else None,
    )
    return AuditedSearch(report, at, expected)


def _by_counts(spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, since: Since | Window) -> AuditedSearch:
    note = LastAuditNote(sides.index, at.info, spec.topic)
    last = note.last.window_of(at.bounds.generation) if since == "last" else NO_LOWS
    lows = since if isinstance(since, Mapping) else last
    expected, at = _folded(spec, sides, at)
    at = replace(at, bounds=replace(at.bounds, lows=dict(lows)))
    moment = sides.ranges(at.info.name, spec, at.bounds)
    try:
        above = moment.above()
        at = _held(spec, sides, at, expected, moment)
        parts, left = parts_of(above, MOST_ABOVE)
        if left.issuperset(at.window):
            raise far_ahead(at.info.name, sum(above.values()))
        walks, count = list[Bisection](), 0
        for part in parts:
            if len(parts) > 1 or left:
                within = replace(at.bounds, part=part)
                expected.narrow(within)
                moment.narrow(within)
            keys = expected.keys(lows)
            count += len(keys)
            walks.append(bisect(keys, moment))
        walk, *others = walks
        for each in others:
            walk.add(each)
        asked = [*walk.missing, *walk.extra]
        now, more = _now(spec, sides, at, moment, asked) if asked else ({}, 0)
    finally:
        moment.close()
    verdict = judge_counted(walk.missing, walk.extra, expected.of(walk.missing), now, at.bounds)
    if not verdict.findings and not left:
        note.keep(window=at.window, generation=at.bounds.generation)
    report = replace(
        _report(spec, sides, at, expected, "bisect"),
        lows=dict(lows),
        expected=count,
        indexed=walk.indexed,
        missing=verdict.missing,
        extra=verdict.extra,
        stale=verdict.stale,
        in_flight=verdict.in_flight,
        requests=moment.requests + more + _REFRESH,
        received_bytes=moment.received,
        listed=walk.listed,
        levels=tuple(walk.levels),
        unsettled={partition: above[partition] for partition in sorted(left)},
        one_by_one=walk.one_by_one,
    )
    return AuditedSearch(report, at, expected)


def _report(
    spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, expected: ExpectedSide, mode: AuditMode
) -> SearchReport:
    position = at.progress.complete
    return SearchReport(
        audit=spec.name,
        topic=spec.topic,
        index=at.info.name,
        mode=mode,
        at=iso(sides.clock.now_us()),
        window=at.window,
        position=position.to_json() if position else None,
        uncovered=at.progress.uncovered,
        unreadable=expected.unreadable,
        starts=at.bounds.starts,
    )


def _held(
    spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, expected: ExpectedSide, moment: StateView | IndexView
) -> AuditCut:
    """The cut, with all three narrowed to what the log still holds now that it was read.

    Retention goes on meanwhile: a record that it removed in between is of no account on either side.
    """
    bounds = at.bounds.held_from(sides.reader.begin_offsets(spec.topic))
    expected.narrow(bounds)
    moment.narrow(bounds)
    return replace(at, bounds=bounds)


def _undeleted(expected: ExpectedSide, moment: StateView, *, everywhere: bool) -> dict[str, list[IndexState]]:
    """Documents that live although the newest record of their key is a tombstone."""
    living: dict[str, list[IndexState]] = {}
    deleted = expected.deleted()
    while ids := list(itertools.islice(deleted, _AT_ONCE)):
        now = moment.now(ids, everywhere=everywhere)
        living |= {i: copies for i, copies in now.items() if any(not copy.deleted for copy in copies)}
    return living


def _now(
    spec: SearchAuditSpec, sides: AuditSides, at: AuditCut, moment: IndexView, asked: list[str]
) -> tuple[Mapping[str, SeenDocument], int]:
    """Documents at this moment, and further requests for them.

    A routed document is found by a search, as its id alone does not say where it lies.
    """
    if spec.index.topics[spec.topic].routing is None:
        return moment.now(asked), 0
    view = sides.states(at.info.name, spec, at.bounds)
    try:
        found = view.now(asked, everywhere=True)
    finally:
        view.close()
    newest = {doc_id: max(copies, key=lambda each: each.version) for doc_id, copies in found.items() if copies}
    seen = {i: SeenDocument(s.partition, s.offset, s.version, s.deleted, s.generation) for i, s in newest.items()}
    return seen, view.requests
