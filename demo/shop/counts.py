"""Counts what the shop committed: each row of an order as an event, and how many of each kind."""

from __future__ import annotations

from dataclasses import dataclass, fields

from demo.shop.plan import StepKind

__all__ = ["CommittedRow", "ShopCounts"]

_COUNTED: dict[StepKind, str] = {
    "place": "placed",
    "complete": "completed",
    "decline": "declined",
    "change": "changed",
    "rollback": "rolled_back",
    "cancel": "cancelled",
    "review": "reviews",
}


@dataclass(frozen=True)
class CommittedRow:
    """One row of `orders` was committed; `committed_us` is the wall clock right after the server said so."""

    order_id: int
    order_row_id: int
    kind: StepKind
    final: bool
    committed_us: int


@dataclass
class ShopCounts:
    """What was committed. `completed` counts completed rows; `repeats` transactions that had to be run again."""

    transactions: int = 0
    placed: int = 0
    completed: int = 0
    declined: int = 0
    changed: int = 0
    rolled_back: int = 0
    cancelled: int = 0
    reviews: int = 0
    errands: int = 0
    repeats: int = 0

    def __add__(self, other: ShopCounts) -> ShopCounts:
        return ShopCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: ShopCounts) -> ShopCounts:
        return ShopCounts(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def count(self, kind: StepKind) -> None:
        """Add the transaction of one step."""
        self.transactions += 1
        name = _COUNTED.get(kind)
        if name is not None:
            setattr(self, name, getattr(self, name) + 1)
