"""Finds the keys in which a sorted list and an index differ, by counting ranges and splitting where counts differ.

The original search audit, batched: a level's ranges are counted together, the last of siblings follows from its
parent, and small ranges are listed instead of split. Requests grow with the number of findings, hardly with the
number of keys. Where counts agree nothing is looked at: as many missing as extra keys in one range cancel. The walk
goes by both signs, so extras are found where they do not cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from include.audit.key_range import KeyRange, KeySlice
from include.audit.range_count import IndexView

__all__ = ["Bisection", "Level", "bisect"]

_MOST_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Level:
    """One step of the walk: how many ranges were counted, and how many of them differed."""

    counted: int
    differing: int


@dataclass
class Bisection:
    """Keys that are possibly missing and possibly extra at the view's moment, and how they were found."""

    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    listed: int = 0
    indexed: int = 0


@dataclass(frozen=True, slots=True)
class _Counted:
    slice: KeySlice
    count: int


def bisect(
    keys: Sequence[str], view: IndexView, *, first_fanout: int = 256, fanout: int = 16, leaf: int = 1000
) -> Bisection:
    """Compare `keys` (sorted, each once) with the living documents of `view`.

    A range of at most `leaf` keys is listed. Raises `Transient` as the view does.
    """
    out = Bisection()
    whole = KeySlice.all_of(keys)
    (out.indexed,) = view.counts([whole.range])
    dirty = [_Counted(whole, out.indexed)]
    # The first level is split even when the totals agree: there, cancelling pairs are likeliest to part.
    parts, leaf_now = first_fanout, 1
    while dirty:
        leaves: list[KeySlice] = []
        inner: list[_Counted] = []
        for one in dirty:
            if one.count == 0:
                out.missing += keys[one.slice.first : one.slice.last]
            elif one.slice.size <= leaf_now:
                leaves.append(one.slice)
            else:
                inner.append(one)
        _list(keys, view, leaves, out)
        dirty = _count_children(keys, view, inner, parts, out) if inner else []
        parts, leaf_now = fanout, leaf
    out.missing.sort()
    out.extra.sort()
    return out


def _count_children(
    keys: Sequence[str], view: IndexView, parents: Sequence[_Counted], parts: int, out: Bisection
) -> list[_Counted]:
    families = [(one, one.slice.split(keys, parts)) for one in parents]
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


def _list(keys: Sequence[str], view: IndexView, leaves: Sequence[KeySlice], out: Bisection) -> None:
    """Compare key by key. A range with more documents than an answer may hold is listed in pages."""
    found: list[set[str]] = [set() for _ in leaves]
    asked = list(enumerate(leaf.range for leaf in leaves))
    while asked:
        answers = view.ids([part for _, part in asked], _MOST_LISTED)
        pages = list(zip(asked, answers, strict=True))
        for (n, _), ids in pages:
            found[n].update(ids)
        # Next in the order of keys after a text is that text and one NUL.
        asked = [(n, KeyRange(f"{ids[-1]}\0", part.high)) for (n, part), ids in pages if len(ids) == _MOST_LISTED]
    for leaf, have in zip(leaves, found, strict=True):
        out.listed += len(have)
        want = keys[leaf.first : leaf.last]
        out.missing += [key for key in want if key not in have]
        out.extra += sorted(have.difference(want))
