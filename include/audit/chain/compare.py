"""Compares the record counts of two groups for one Kafka partition, though each cuts it at its own boundaries.

A cut that a boundary of the other group divides has between so many records before it and so many: as many as it has
less the offsets behind, up to as many as there are offsets before. Where offsets are dense that is one number, so what
is missing shows to the cut. Boundaries that both have are exact, and so are cuts whose objects were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from include.audit.chain.walk import WalkedCut

__all__ = ["CountDifference", "Segment", "differences", "segments_of"]

_ANY: Final = (-(1 << 62), 1 << 62)


class Segment(NamedTuple):
    """[first, next) with so many records; None where nobody knows, or where the group is known to lack some."""

    first: int
    next: int
    records: int | None


class CountDifference(NamedTuple):
    """Within [first, until) `one` read `more` records more than `other` at least; negative: fewer."""

    first: int
    until: int
    more: int


def segments_of(cuts: Iterable[WalkedCut]) -> list[Segment]:
    """Cuts as readers find them, by `first`; what lies between them or is in two of them has no number."""
    segments: list[Segment] = []
    end: int | None = None
    for cut in cuts:
        if end is not None and cut.next <= end:
            continue
        if end is not None and cut.first > end:
            segments.append(Segment(end, cut.first, None))
        whole = end is None or cut.first >= end
        if not whole:
            segments[-1] = segments[-1]._replace(records=None)
        known = cut.records if whole and not cut.gone else None
        segments.append(Segment(cut.first if whole or end is None else end, cut.next, known))
        end = cut.next
    return segments


def differences(one: Sequence[Segment], other: Sequence[Segment]) -> Iterator[CountDifference]:
    """Places where the counts cannot both be right, up to the lower head; segments of each are sorted and apart."""
    if not one or not other:
        return
    begin = max(one[0].first, other[0].first)
    end = min(one[-1].next, other[-1].next)
    left, right = _Counter(one, begin), _Counter(other, begin)
    # What one has more than the other, as far as it is known: it must not change.
    drift = (0, 0) if one[0].first == other[0].first else _ANY
    before = begin
    for boundary in _boundaries(one, other, begin, end):
        counts, counts_other = left.to(boundary), right.to(boundary)
        if counts is None or counts_other is None:
            drift = _ANY
        else:
            seen = (counts[0] - counts_other[1], counts[1] - counts_other[0])
            low, high = max(drift[0], seen[0]), min(drift[1], seen[1])
            if low > high:
                yield CountDifference(
                    before, boundary, seen[0] - drift[1] if seen[0] > drift[1] else seen[1] - drift[0]
                )
                low, high = seen
            drift = low, high
        before = boundary


def _boundaries(one: Sequence[Segment], other: Sequence[Segment], begin: int, end: int) -> list[int]:
    ends = {each.next for segments in (one, other) for each in segments}
    return sorted(at for at in ends if begin < at <= end)


class _Counter:
    """Least and greatest number of records from the beginning up to offsets that grow."""

    def __init__(self, segments: Sequence[Segment], begin: int) -> None:
        self._segments = segments
        self._at = 0
        self._whole = 0
        while self._at < len(segments) and segments[self._at].next <= begin:
            self._at += 1

    def to(self, offset: int) -> tuple[int, int] | None:
        """None where a segment since the last call has no number; later calls count it as none."""
        blind = False
        while self._at < len(self._segments) and self._segments[self._at].next <= offset:
            records = self._segments[self._at].records
            blind = blind or records is None
            self._whole += records or 0
            self._at += 1
        least = most = self._whole
        if self._at < len(self._segments) and self._segments[self._at].first < offset:
            first, after, records = self._segments[self._at]
            if records is None:
                return None
            least += max(0, records - (after - offset))
            most += min(records, offset - first)
        return None if blind else (least, most)
