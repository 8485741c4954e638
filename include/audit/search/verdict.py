"""Judges documents that seemed to differ by what they are at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from include.audit.search.bounds import AuditBounds
from include.audit.search.expected import RecordState
from include.audit.search.views.range_count import SeenDocument
from include.audit.search.views.state_view import IndexState

__all__ = ["DocumentVerdict", "judge", "judge_counted"]


@dataclass(frozen=True, slots=True)
class DocumentVerdict:
    """Sorted ids by what is wrong. `in_flight` differed at the cut and no longer do.

    missing: expected, not there. extra: there (or there a second time, under another routing), not expected. stale:
    there in an older state. altered: there in a state of the expected version or a later one that no record made.
    """

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    in_flight: int = 0

    @property
    def findings(self) -> int:
        """The number of wrong documents."""
        return len({*self.missing, *self.extra, *self.stale, *self.altered})


def judge(
    suspects: Iterable[str],
    expected: Mapping[str, RecordState],
    now: Mapping[str, Sequence[IndexState]],
    bounds: AuditBounds,
) -> DocumentVerdict:
    """Judge `suspects`; a document that was written from above the bounds is not judged."""
    kinds: dict[str, list[str]] = {"missing": [], "extra": [], "stale": [], "altered": [], "": []}
    for doc_id in sorted(set(suspects)):
        for kind in _faults(expected.get(doc_id), now.get(doc_id, ()), bounds):
            kinds[kind].append(doc_id)
    return DocumentVerdict(
        tuple(kinds["missing"]),
        tuple(kinds["extra"]),
        tuple(kinds["stale"]),
        tuple(kinds["altered"]),
        len(kinds[""]),
    )


def judge_counted(
    missing: Sequence[str],
    extra: Sequence[str],
    expected: Mapping[str, RecordState],
    now: Mapping[str, SeenDocument],
    bounds: AuditBounds,
) -> DocumentVerdict:
    """Judge what counts by ranges lack and have too much; what they know tells no altered document."""
    kinds: dict[str, list[str]] = {"missing": [], "stale": [], "extra": [], "": []}
    for doc_id in missing:
        kinds[_lack(expected.get(doc_id), now.get(doc_id), bounds)].append(doc_id)
    for doc_id in extra:
        kinds[_surplus(now.get(doc_id), bounds)].append(doc_id)
    found = {kind: tuple(sorted(ids)) for kind, ids in kinds.items()}
    return DocumentVerdict(found["missing"], found["extra"], found["stale"], (), len(found[""]))


def _lack(want: RecordState | None, seen: SeenDocument | None, bounds: AuditBounds) -> str:
    if seen is None:
        return "missing"
    if bounds.above(seen) or want is None:
        return ""
    if seen.version > want.version:
        # A tombstone of a greater version was written for a reason that came after the cut, such as a floor.
        return ""
    if seen.deleted:
        return "missing"
    return "stale" if seen.version < want.version else ""


def _surplus(seen: SeenDocument | None, bounds: AuditBounds) -> str:
    judged = seen is not None and not seen.deleted and not bounds.above(seen) and not bounds.unproven(seen)
    return "extra" if judged else ""


def _faults(want: RecordState | None, copies: Sequence[IndexState], bounds: AuditBounds) -> list[str]:
    if any(bounds.above(copy) for copy in copies):
        return [""]
    there = sorted((copy for copy in copies if not copy.deleted), key=lambda each: each.version)
    if want is None:
        # The record of an unproven one may have been in the log: it is not there any more to say so.
        return ["extra"] if any(not bounds.unproven(copy) for copy in there) else [""]
    if want.kind == "deleted":
        return ["extra"] if there else [""]
    if not there:
        # A tombstone of a greater version was written for a reason that came after the cut, such as a floor.
        return [""] if any(copy.version > want.version for copy in copies) else ["missing"]
    newest = there[-1]
    out = ["extra"] if len(there) > 1 else []
    if newest.version < want.version:
        return [*out, "stale"]
    if newest.version > want.version or newest.state != want.state:
        # A body that could not be read was set aside: what is there in its place is an older state, or no state of it.
        return [*out, "altered"]
    return out or [""]
