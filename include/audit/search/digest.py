"""The digest audit: finds documents whose states differ from sums, in about three round trips whatever the size.

Sums cannot leave out what was written after the cut, so the index names those documents with the sums: they are taken
out of both sides. What is left are faults. Buckets start coarse and get finer when more differs than they hold; then
what is left in few buckets is listed. Where that is too much, the result is incomplete, and says so.

While an application catches up, more may have been written from beyond the cut than can be named: then one part of the
documents is compared after the other, within the same moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from include.audit.search.bounds import AuditBounds, PartitionShare, parts_of
from include.audit.search.expected import ExpectedSide, RecordState
from include.audit.search.iblt import DecodedSketch, Histogram, SketchCells, add_up, differences, peel
from include.audit.search.views import state_view
from include.audit.search.views.state_view import FarAhead, IndexState, StateView, far_ahead

__all__ = ["DigestDifference", "digest", "digest_by_parts", "levels_for"]

_RUNS: Final = 4
_FEW_BUCKETS: Final = 64
_MOST_LISTED: Final = 100_000
_FINEST: Final = 16
_USUAL: Final = 14
_COARSEST: Final = 9
_PER_BUCKET: Final = 128


@dataclass
class DigestDifference:
    """What differs at the view's moment.

    `more` is expected and not there, `less` is there and not expected: a document in another state is in both. `above`
    are the ids that were written from beyond the cut, which are not judged: `expected` and `indexed` count without
    them. `left` buckets were not resolved. `stateless` documents are in no sum. Nothing is said of partitions that are
    `unsettled`, with so many documents from beyond the cut.
    """

    more: list[RecordState] = field(default_factory=list)
    less: list[IndexState] = field(default_factory=list)
    above: frozenset[str] = frozenset()
    expected: int = 0
    indexed: int = 0
    bits: tuple[int, ...] = ()
    listed: int = 0
    left: int = 0
    stateless: list[IndexState] = field(default_factory=list)
    unsettled: Mapping[int, int] = field(default_factory=dict)

    def add(self, other: DigestDifference) -> None:
        """Take in what was found in another part."""
        self.more += other.more
        self.less += other.less
        self.stateless += other.stateless
        self.above |= other.above
        self.expected += other.expected
        self.indexed += other.indexed
        self.listed += other.listed
        self.left += other.left
        self.bits = max(self.bits, other.bits, key=len)


def digest_by_parts(expected: ExpectedSide, view: StateView, bounds: AuditBounds, index: str) -> DigestDifference:
    """`digest`, in parts where too much was written from beyond the bounds; both sides are narrowed to them by now.

    Afterwards they are narrowed to what was compared. Raises `FarAhead` when no part could be, and as the view does.
    """
    try:
        return digest(expected, view)
    except FarAhead:
        above = view.above()
    parts, left = parts_of(above, state_view.MOST_ABOVE)
    if left.issuperset(bounds.window):
        raise far_ahead(index, sum(above.values()))
    out = DigestDifference(unsettled={partition: above[partition] for partition in sorted(left)})
    for part in parts:
        within = replace(bounds, part=part)
        expected.narrow(within)
        view.narrow(within)
        out.add(digest(expected, view))
    compared = replace(bounds, part=PartitionShare(left, inside=False) if left else None)
    expected.narrow(compared)
    view.narrow(compared)
    return out


def levels_for(documents: int) -> tuple[int, ...]:
    """Bits of the buckets to try one after the other: coarser for few documents, so that sums stay far smaller."""
    first = max(_COARSEST, min(_USUAL, (documents // _PER_BUCKET).bit_length()))
    return tuple(sorted({first, _USUAL, _FINEST}))


def digest(expected: ExpectedSide, view: StateView, levels: Sequence[int] | None = None) -> DigestDifference:
    """Compare; raises as the view does."""
    out = DigestDifference()
    levels = levels or levels_for(expected.living)
    for bits in levels:
        sums, above = view.histograms(bits)
        out.stateless = list(view.stateless)
        out.above = frozenset(document.doc_id for document in above)
        there = _without(
            sums, (document.state for document in above if document.state is not None and not document.deleted), bits
        )
        moved = expected.of(out.above).values()
        want = _without(
            expected.histograms(bits), (document.state for document in moved if document.kind == "living"), bits
        )
        out.expected, out.indexed = (sum(count for count, _ in side[0].values()) for side in (want, there))
        out.bits = (*out.bits, bits)
        peeled = peel(differences(want, there), bits)
        last = bits == levels[-1]
        if len(peeled.rest[0]) > _FEW_BUCKETS and not last:
            continue
        peeled = _proven(peeled, differences(want, there), bits, expected, view, out)
        rest = sorted(peeled.rest[0])
        out.left = max(len(cells) for cells in peeled.rest)
        if rest and sum(side[0].get(place, (0, 0))[0] for side in (want, there) for place in rest) <= _MOST_LISTED:
            _list(rest, bits, expected, view, out)
            out.left = 0
        if not out.left:
            break
    return out


def _proven(
    found: DecodedSketch, cells: SketchCells, bits: int, expected: ExpectedSide, view: StateView, out: DigestDifference
) -> DecodedSketch:
    """Peel until each state that came out has a holder: others came out by chance."""
    refused: set[int] = set()
    for _ in range(_RUNS):
        out.more = expected.find(found.more) if found.more else []
        out.less = view.holders(found.less) if found.less else []
        chance = {*found.more, *found.less} - {r.state for r in out.more} - {d.state for d in out.less}
        if not chance:
            break
        refused |= chance
        found = peel(cells, bits, refused)
    else:
        # The last peeling was not looked at any more: what came out before it is no answer.
        out.more, out.less = [], []
        return DecodedSketch(rest=cells)
    return found


def _list(places: list[int], bits: int, expected: ExpectedSide, view: StateView, out: DigestDifference) -> None:
    """What differs in these buckets, document by document."""
    want = [r for r in expected.in_buckets(bits, places) if r.doc_id not in out.above]
    there = [d for d in view.in_buckets(bits, places) if d.doc_id not in out.above]
    out.listed += len(there)
    known_want, known_there = {r.doc_id for r in out.more}, {(d.doc_id, d.routing) for d in out.less}
    left = Counter((d.doc_id, d.state) for d in there)
    for record in want:
        if left[record.doc_id, record.state] > 0:
            left[record.doc_id, record.state] -= 1
        elif record.doc_id not in known_want:
            out.more.append(record)
    for document in there:
        if left[document.doc_id, document.state] > 0:
            left[document.doc_id, document.state] -= 1
            if (document.doc_id, document.routing) not in known_there:
                out.less.append(document)


def _without(sums: Sequence[Histogram], states: Iterable[int], bits: int) -> tuple[Histogram, ...]:
    """`sums` less those of `states`."""
    return differences(sums, add_up(states, bits))
