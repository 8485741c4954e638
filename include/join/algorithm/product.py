"""Computes what one record changes in the outputs of a join key: the delta product.

As in MJoin (Viglas, Naughton, Burger: Maximizing the output rate of multi-way join queries over streaming information
sources, VLDB 2003): a changed row is combined with the rows of all other inputs, and the outputs of no two inputs
alone are kept anywhere. The others are probed in an order in which the search ends soonest. Left joins on one key need
no order of their own: an optional input without rows takes part with one entry that stands for none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from include.join.algorithm.multimap import JoinSide
from include.join.algorithm.row import OutputShare, Touch
from include.join.algorithm.shape import JoinShape

__all__ = ["Combination", "Delta", "Exchange", "delta"]

Combination = tuple[OutputShare, ...]
"""An entry of each input."""


class Exchange(NamedTuple):
    """In the outputs, `before` gives its place to `after`; None: there was or will be none."""

    before: OutputShare | None
    after: OutputShare | None


@dataclass(frozen=True, slots=True)
class Delta:
    """The outputs that one record changes: each exchange with each combination of the other inputs' entries.

    `size` counts them; nothing is built until somebody iterates.
    """

    input: int
    exchanges: Sequence[Exchange]
    others: Sequence[Sequence[OutputShare]]

    @property
    def size(self) -> int:
        """The number of outputs that change."""
        return len(self.exchanges) * math.prod(len(entries) for entries in self.others)

    def combinations(self) -> Iterator[tuple[Combination | None, Combination | None]]:
        """(before, after) of each output, those that go before those that come."""
        if not self.exchanges:
            return
        position = self.input
        for around in itertools.product(*self.others):
            head, tail = around[:position], around[position:]
            for exchange in self.exchanges:
                before = None if exchange.before is None else (*head, exchange.before, *tail)
                after = None if exchange.after is None else (*head, exchange.after, *tail)
                yield before, after


def delta(touch: Touch, input: int, sides: Sequence[JoinSide], shape: JoinShape) -> Delta:
    """Puts the row of `touch` into the side of its input; what that changes in the outputs."""
    exchanges = _exchanges(touch, input, sides[input], shape)
    if not exchanges:
        return Delta(input, (), ())
    others: dict[int, Sequence[OutputShare]] = {}
    for other in shape.probe_order(input):
        entries = list(sides[other].shown().values())
        if not entries and not shape.optional[other]:
            return Delta(input, (), ())
        others[other] = entries or [shape.projection.absent(other)]
    return Delta(input, exchanges, [others[other] for other in sorted(others)])


def _exchanges(touch: Touch, input: int, side: JoinSide, shape: JoinShape) -> list[Exchange]:
    optional = shape.optional[input]
    if shape.distinct[input] and not optional:
        # Its group is its own: no neighbour has to be read to know what is shown of it.
        before = side.entry(touch.key)
        side.put(touch.key, touch.row)
        after = side.entry(touch.key)
        changed: list[tuple[OutputShare | None, OutputShare | None]] = [(before, after)]
        if before is not None and after is not None and before.group != after.group:
            # Its outputs' key has a field beside the row's own key, and that field changed.
            changed = [(before, None), (None, after)]
    else:
        shown = side.shown()
        was_empty = not shown
        entries = (side.entry(touch.key), side.entry_of(touch.key, touch.row))
        groups = dict.fromkeys(entry.group for entry in entries if entry is not None)
        stood = {group: shown.get(group) for group in groups}
        side.put(touch.key, touch.row)
        changed = [(stood[group], shown.get(group)) for group in groups]
        if optional and was_empty is not (not shown):
            absent = shape.projection.absent(input)
            # What stands for none goes before rows come, and comes after they went: its key may be theirs.
            changed = [(absent, None), *changed] if was_empty else [*changed, (None, absent)]
    return [
        Exchange(before, after)
        for before, after in changed
        if touch.again or before is None or after is None or before.part != after.part
        if before is not None or after is not None
    ]
