"""Finds the keys in which a sorted list and an index differ, by counting ranges and splitting where counts differ.

The original search audit, batched: a level's ranges are counted together, the last of siblings follows from its
parent, and small ranges are listed instead of split. Requests grow with the number of findings, hardly with the
number of keys. Keys are asked for by rank, a level at once, so that they may be more than memory holds. Where counts
agree nothing is looked at: as many missing as extra keys in one range cancel. The walk goes by both signs, so extras
are found where they do not cancel.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from include.audit.search.views.key_list import SortedKeys
from include.audit.search.views.key_range import DocIdRange, KeySlice
from include.audit.search.views.range_count import IndexView

__all__ = ["Bisection", "Level", "bisect"]

_MOST_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Level:
    """One step of the walk: how many ranges were counted, and how many of them differed."""

    counted: int
    differing: int


@dataclass
class Bisection:
    """Keys that are possibly missing and possibly extra at the view's moment, and how they were found.

    `one_by_one` is how many counts halving would have asked for, one request for each, to find the missing ones.
    """

    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    listed: int = 0
    indexed: int = 0
    one_by_one: int = 1

    def add(self, other: Bisection) -> None:
        """Take in what was found in another part."""
        self.missing += other.missing
        self.extra += other.extra
        self.levels += other.levels
        self.listed += other.listed
        self.indexed += other.indexed
        self.one_by_one += other.one_by_one


@dataclass(frozen=True, slots=True)
class _Counted:
    slice: KeySlice
    count: int


def bisect(
    keys: SortedKeys, view: IndexView, *, first_fanout: int = 256, fanout: int = 16, leaf: int = 1000
) -> Bisection:
    """Compare `keys` with the living documents of `view`.

    A range of at most `leaf` keys is listed. Raises `Transient` as the view does.
    """
    out = Bisection()
    whole = KeySlice.all_of(len(keys))
    (out.indexed,) = view.counts([whole.range])
    dirty = [_Counted(whole, out.indexed)]
    # The first level is split even when the totals agree: there, cancelling pairs are likeliest to part.
    parts, leaf_now = first_fanout, 1
    ranks: list[int] = []
    while dirty:
        leaves: list[KeySlice] = []
        inner: list[_Counted] = []
        empty: list[KeySlice] = []
        for one in dirty:
            if one.count == 0:
                empty.append(one.slice)
            elif one.slice.size <= leaf_now:
                leaves.append(one.slice)
            else:
                inner.append(one)
        for each, gone in zip(empty, keys.spans([(e.first, e.last) for e in empty]) if empty else (), strict=True):
            out.missing += gone
            ranks += range(each.first, each.last)
        if leaves:
            ranks += _list(keys, view, leaves, out)
        dirty = _count_children(keys, view, inner, parts, out) if inner else []
        parts, leaf_now = fanout, leaf
    out.missing.sort()
    out.extra.sort()
    out.one_by_one = _halvings(len(keys), sorted(ranks))
    return out


def _halvings(size: int, ranks: Sequence[int]) -> int:
    """Counts that halving asks for, the second half of each range being the rest, to find keys of these ranks."""
    asked, ranges = 1, [(0, size, 0, len(ranks))]
    while ranges:
        first, last, low, high = ranges.pop()
        if high == low or high - low == last - first:
            continue
        asked += 1
        middle = (first + last) // 2
        cut = bisect_left(ranks, middle, low, high)
        ranges += [(first, middle, low, cut), (middle, last, cut, high)]
    return asked


def _count_children(
    keys: SortedKeys, view: IndexView, parents: Sequence[_Counted], parts: int, out: Bisection
) -> list[_Counted]:
    marks = [one.slice.marks(parts) for one in parents]
    inner = iter(keys.at([rank for each in marks for rank in each[1:-1]]))
    families = [
        (one, one.slice.split(each, [next(inner) for _ in each[1:-1]]))
        for one, each in zip(parents, marks, strict=True)
    ]
    asked = iter(view.counts([child.range for _, children in families for child in children[:-1]]))
    dirty: list[_Counted] = []
    counted = 0
    for parent, children in families:
        known = [next(asked) for _ in children[:-1]]
        known.append(parent.count - sum(known))
        counted += len(children)
        dirty += [_Counted(c, n) for c, n in zip(children, known, strict=True) if c.size != n]
    out.levels.append(Level(counted, len(dirty)))
    return dirty


def _list(keys: SortedKeys, view: IndexView, leaves: Sequence[KeySlice], out: Bisection) -> list[int]:
    """Compare key by key; gives the ranks of the missing.

    A range with more documents than an answer may hold is listed in pages.
    """
    ids_by_leaf: list[set[str]] = [set() for _ in leaves]
    asked = list(enumerate(leaf.range for leaf in leaves))
    while asked:
        answers = view.ids([part for _, part in asked], _MOST_LISTED)
        pages = list(zip(asked, answers, strict=True))
        for (n, _), ids in pages:
            ids_by_leaf[n].update(ids)
        # Next in the order of keys after a text is that text and one NUL.
        asked = [(n, DocIdRange(f"{ids[-1]}\0", part.high)) for (n, part), ids in pages if len(ids) == _MOST_LISTED]
    spans = keys.spans([(leaf.first, leaf.last) for leaf in leaves])
    ranks = []
    for leaf, want, have in zip(leaves, spans, ids_by_leaf, strict=True):
        out.listed += len(have)
        gone = [rank for rank, key in enumerate(want) if key not in have]
        out.missing += [want[rank] for rank in gone]
        ranks += [leaf.first + rank for rank in gone]
        out.extra += sorted(have.difference(want))
    return ranks
