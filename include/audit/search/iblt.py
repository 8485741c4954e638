"""Finds the states in which two sets differ from sums alone: an invertible Bloom lookup table over documents' states.

Each side adds up the states (`include.index.digest`) of its documents by bucket, in two views. What both sides share
cancels. A bucket whose difference is one state names it; taking that state out of its bucket in the other view may
leave one state there, and so on. Method: D. Eppstein, M. Goodrich, F. Uyeda, G. Varghese, "What's the Difference?
Efficient Set Reconciliation without Prior Context", SIGCOMM 2011. With B buckets a view about 0.6 B states come out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from include.index.digest import BUCKET_BITS, VIEWS, bucket

__all__ = ["DecodedSketch", "Histogram", "SketchCells", "add_up", "differences", "peel"]

Histogram = Mapping[int, tuple[int, int]]
"""Bucket -> how many states are in it, and their sum as an exact integer. Empty buckets are left out."""
SketchCells = tuple[dict[int, tuple[int, int]], ...]
"""For each view: bucket -> difference of counts and of sums, where either is not 0."""
_STATES: Final = 1 << 64


@dataclass
class DecodedSketch:
    """What came out: states that only the one side has, those that only the other has, and the cells that are left.

    A state may have come out of a bucket of several by chance: its holder proves it. Nothing is left of `rest` when
    everything came out.
    """

    more: list[int] = field(default_factory=list)
    less: list[int] = field(default_factory=list)
    rest: SketchCells = field(default_factory=lambda: tuple({} for _ in VIEWS))

    @property
    def whole(self) -> bool:
        """Whether every difference came out."""
        return not any(self.rest)


def add_up(states: Iterable[int], bits: int) -> tuple[Histogram, ...]:
    """The histograms of `states` in all views, 2^`bits` buckets each."""
    out: list[dict[int, tuple[int, int]]] = [{} for _ in VIEWS]
    for state in states:
        for view, cells in enumerate(out):
            x = bucket(state, view) >> (BUCKET_BITS - bits)
            count, total = cells.get(x, (0, 0))
            cells[x] = count + 1, total + state
    return tuple(out)


def differences(one: Iterable[Histogram], other: Iterable[Histogram]) -> SketchCells:
    """`one` less `other`."""
    out = []
    for mine, theirs in zip(one, other, strict=True):
        cells = {}
        for x in mine.keys() | theirs.keys():
            (count, total), (count2, total2) = mine.get(x, (0, 0)), theirs.get(x, (0, 0))
            if count != count2 or total != total2:
                cells[x] = count - count2, total - total2
        out.append(cells)
    return tuple(out)


def peel(cells: SketchCells, bits: int, refused: Collection[int] = ()) -> DecodedSketch:
    """Take out state after state; `cells` stay as they are.

    Args:
        cells: of views with 2^`bits` buckets.
        bits: as above.
        refused: states that neither side has: they came out of an earlier run by chance.
    """
    rest = tuple(dict(view) for view in cells)
    signs: dict[int, int] = {}
    queue = [(view, x) for view, found in enumerate(rest) for x in found]
    while queue:
        view, x = queue.pop()
        sign, total = rest[view].get(x, (0, 0))
        if sign not in (1, -1):
            continue
        state = sign * total
        if not 0 <= state < _STATES or state in refused or state in signs:
            continue
        places = [bucket(state, v) >> (BUCKET_BITS - bits) for v in range(len(rest))]
        # A state that is really there leaves its mark in every view.
        if places[view] != x or any(cell not in rest[v] for v, cell in enumerate(places)):
            continue
        signs[state] = sign
        for v, cell in enumerate(places):
            count, total = rest[v][cell]
            left = count - sign, total - sign * state
            if left == (0, 0):
                del rest[v][cell]
            else:
                rest[v][cell] = left
            queue.append((v, cell))
    return DecodedSketch(
        [state for state, sign in signs.items() if sign > 0],
        [state for state, sign in signs.items() if sign < 0],
        rest,
    )
