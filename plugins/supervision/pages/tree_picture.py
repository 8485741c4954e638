"""A picture of the tree of sums of a table: a row for each level, from the root to the leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from markupsafe import Markup

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
LEGEND: Final = Markup("").join(
    Markup(
        '<span class="told"><svg width="12" height="12" aria-hidden="true">'
        '<rect width="12" height="12" fill="{}"/></svg> {}</span>'
    ).format(colour, what)
    for colour, what in _KINDS.items()
)


def tree_picture(report: Mapping[str, Any]) -> Markup:
    """SVG of a table's report (`TableReport.to_json`); each node says how many rows it has, and how it is."""
    tree = Tree.from_json(report["tree"])
    wrong, changed = set(report.get("wrong") or ()), set(report.get("changed") or ())
    deepest = min(tree.bits, _DEEPEST)
    nodes = Markup("").join(_level(tree, bits, wrong, changed) for bits in range(deepest + 1))
    height = (deepest + 1) * _HEIGHT
    return Markup(
        '<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{said}">{nodes}</svg>'
    ).format(
        width=_WIDTH,
        height=height,
        said=f"Of {1 << tree.bits:,} leaves {len(wrong):,} differed from the copy, {len(changed):,} changed",
        nodes=nodes,
    )


def _level(tree: Tree, bits: int, wrong: set[int], changed: set[int]) -> Markup:
    below = tree.bits - bits
    bad, moved = {leaf >> below for leaf in wrong}, {leaf >> below for leaf in changed}
    sums, width = tree.level(bits), _WIDTH / (1 << bits)
    rectangles = []
    for node in range(1 << bits):
        rows = sums[node].rows if node in sums else 0
        colour = _WRONG if node in bad else _CHANGED if node in moved else _SAME if rows else _EMPTY
        rectangles.append(
            Markup(
                '<rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" fill="{}"><title>{:,} rows: {}</title></rect>'
            ).format(node * width, bits * _HEIGHT, max(width - 0.5, 0.5), _HEIGHT - 1, colour, rows, _KINDS[colour])
        )
    return Markup("").join(rectangles)
