"""Compares two copies of a table: leaves that differ, then the rows in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from include.audit.merkle.rows import DifferingRow, differences
from include.audit.merkle.sides import AsOfRange, FollowingSide, LeadingSide
from include.audit.merkle.tree import Tree
from include.source.hashes.columns import ComparedColumn
from include.source.hashes.sums import HashSum, leaf_of
from include.source.snapshot.watermark_window import SnapshotSpan
from include.source.state.key_range import KeyRange

__all__ = ["ComparisonResult", "Say", "compared"]

_MOST_LEAVES: Final = 400
"""Whose rows are fetched; a table that differs in more is best copied anew."""
_ROUNDS: Final = 10
_LOOKS: Final = 3

Say = Callable[[str], None]
"""Hears what is done, for people who wait."""


@dataclass(frozen=True)
class ComparisonResult:
    """What came of a comparison.

    Args:
        tree: of the leading side.
        rows: that the leading side has.
        spans: moments of its ranges.
        differing: leaves that were not the same.
        left_out: those of them whose rows were not looked at, as they are too many.
        found: rows that are wrong.
        unexplained: leaves that were not the same each time, though no row in them is.
        unsure: keys that changed each time they were looked at, so that nothing can be said of them.
        parts: ranges that differed.
        leaves: numbers of the tree's leaves that differed in some range.
    """

    tree: Tree
    spans: Sequence[SnapshotSpan]
    differing: int = 0
    left_out: int = 0
    unexplained: int = 0
    found: Sequence[DifferingRow] = ()
    unsure: Collection[str] = field(default_factory=frozenset)
    parts: Sequence[KeyRange] = ()
    leaves: Sequence[int] = ()

    @property
    def rows(self) -> int:
        """How many the leading side has."""
        return self.tree.root.rows


def compared(
    leading: LeadingSide,
    following: FollowingSide,
    parts: Sequence[KeyRange],
    bits: int,
    columns: Sequence[ComparedColumn],
    say: Say = lambda _text: None,
) -> ComparisonResult:
    """Compare what both sides have in these ranges.

    A row counts as wrong when it is found so twice: in the sum of its leaf, and by itself at a later moment. What
    changed within the span of a moment is looked at again, until it keeps still.

    Args:
        leading: reads now.
        following: gives the same as of then.
        parts: ranges that have all rows, each once.
        bits: of the numbers of leaves, within each range.
        columns: that a row's text has.
        say: hears how far it is.
    """
    mine = leading.leaves(parts, bits)
    theirs = following.leaves([AsOfRange(part, scan.span) for part, scan in zip(parts, mine, strict=True)], bits)
    tree = Tree.of(bits, [scan.leaves for scan in mine])
    wrong = {
        part: leaves
        for part, one, other in zip(parts, mine, theirs, strict=True)
        if (leaves := _differing(one.leaves, other.leaves))
    }
    spans = [scan.span for scan in mine]
    total = sum(map(len, wrong.values()))
    if not total:
        return ComparisonResult(tree, spans)
    say(f"{total:,} leaves differ; looking at their rows")
    left = _first(wrong, _MOST_LEAVES)
    left_out = total - sum(map(len, left.values()))
    # None: all keys of the range.
    watched: dict[KeyRange, set[str] | None] = dict.fromkeys(left)
    database, copy = dict[str, str](), dict[str, str]()
    for _ in range(_ROUNDS):
        ours = leading.rows_of({part: left[part] for part in watched}, bits)
        held = following.rows_of({AsOfRange(part, ours[part].span): left[part] for part in watched}, bits)
        moved: dict[KeyRange, set[str] | None] = {}
        for asked, there in held.items():
            here, among = ours[asked.rows].texts, watched[asked.rows]
            other = {key for key in here.keys() | there.texts.keys() if here.get(key) != there.texts.get(key)}
            other = other if among is None else other & among
            still = other - set(there.unsure)
            database |= {key: here[key] for key in still & here.keys()}
            copy |= {key: there.texts[key] for key in still & there.texts.keys()}
            if other - still:
                moved[asked.rows] = other - still
        watched = moved
        if not watched:
            break
    differing_rows = differences(database, copy, columns, following.earlier)
    unsure = frozenset().union(*(keys or () for keys in watched.values()))
    leaves = sorted({leaf for part_leaves in wrong.values() for leaf in part_leaves})
    told = {leaf_of(key.encode(), bits) for key in {*database, *copy, *unsure}}
    silent = {part: rest for part, part_leaves in left.items() if (rest := set(part_leaves) - told)}
    unexplained = _still_differing(leading, following, silent, bits) if silent else 0
    return ComparisonResult(tree, spans, total, left_out, unexplained, differing_rows, unsure, list(wrong), leaves)


def _still_differing(
    leading: LeadingSide, following: FollowingSide, silent: dict[KeyRange, set[int]], bits: int
) -> int:
    """How many of the leaves of these ranges are never the same: as where a copy has a key twice.

    Only what is exactly of one moment counts, as within a span a leaf may be anything between.
    """
    for _ in range(_LOOKS):
        parts = [part for part, each in silent.items() if each]
        if not parts:
            break
        mine = leading.leaves(parts, bits)
        theirs = following.leaves([AsOfRange(part, each.span) for part, each in zip(parts, mine, strict=True)], bits)
        for part, one, other in zip(parts, mine, theirs, strict=True):
            exact = one.span.low == one.span.high
            silent[part] &= set(_differing(one.leaves, other.leaves)) if exact else set()
    return sum(map(len, silent.values()))


def _differing(one: Mapping[int, HashSum], other: Mapping[int, HashSum]) -> list[int]:
    return sorted(leaf for leaf in one.keys() | other.keys() if one.get(leaf) != other.get(leaf))


def _first(leaves: Mapping[KeyRange, Sequence[int]], most: int) -> dict[KeyRange, Collection[int]]:
    chosen: dict[KeyRange, Collection[int]] = {}
    for part, mine in leaves.items():
        if most > 0:
            chosen[part] = mine[:most]
            most -= len(chosen[part])
    return chosen
