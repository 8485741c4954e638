"""A picture of the tree of sums of a table: a row for each level, from the root to the leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.audit.merkle.tree import Tree

__all__ = ["LEGEND", "tree_picture"]

_WIDTH: Final = 960
_HEIGHT: Final = 16
_DEEPEST: Final = 8
"""Levels below the root that are drawn: a node of the last one stands for all leaves below it."""
_WRONG, _CHANGED, _SAME, _EMPTY = "#c33", "#e0a030", "#5b9a68", "#8884"
_KINDS: Final = {
    _WRONG: "differed from the copy",
    _CHANGED: "changed since the run before",
    _SAME: "as it was, and equal",
    _EMPTY: "no rows",
}
LEGEND: Final = "".join(
    f'<span class="told"><svg width="12" height="12"><rect width="12" height="12" fill="{colour}"/></svg> {what}</span>'
    for colour, what in _KINDS.items()
)


def tree_picture(report: Mapping[str, Any]) -> str:
    """SVG of a table's report (`TableReport.to_json`); each node says how many rows it has."""
    tree = Tree.from_json(report["tree"])
    wrong, changed = set(report.get("wrong") or ()), set(report.get("changed") or ())
    deepest = min(tree.bits, _DEEPEST)
    nodes = "".join(_level(tree, bits, wrong, changed) for bits in range(deepest + 1))
    height = (deepest + 1) * _HEIGHT
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" style="max-width:100%" role="img">{nodes}</svg>'


def _level(tree: Tree, bits: int, wrong: set[int], changed: set[int]) -> str:
    below = tree.bits - bits
    bad, moved = {leaf >> below for leaf in wrong}, {leaf >> below for leaf in changed}
    sums, width = tree.level(bits), _WIDTH / (1 << bits)
    rectangles = []
    for node in range(1 << bits):
        rows = sums[node].rows if node in sums else 0
        colour = _WRONG if node in bad else _CHANGED if node in moved else _SAME if rows else _EMPTY
        place = (
            f'x="{node * width:.2f}" y="{bits * _HEIGHT}" width="{max(width - 0.5, 0.5):.2f}" height="{_HEIGHT - 1}"'
        )
        rectangles.append(f'<rect {place} fill="{colour}"><title>{rows:,} rows</title></rect>')
    return "".join(rectangles)
