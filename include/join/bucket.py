"""One bucket's work of one batch: rows, floors and touches in, a new version of its state and outputs back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from include.join.batch import Held, Output, apply
from include.join.floors import touches_of_floor
from include.join.gathering import Refused, Work
from include.join.multimap import Rows
from include.join.shape import Shape

__all__ = ["BucketResult", "BucketState", "Floor", "apply_work"]


class BucketState(Rows, Protocol):
    """A bucket that is open at the version that a pointer names."""

    def commit(self, rows: Mapping[bytes, bytes | None]) -> bytes:
        """Make the next version, durably, with these keys put or (None) deleted; its pointer.

        The version stands once a transaction has committed the pointer. Until then the one before may be opened again.
        """


@dataclass(frozen=True, slots=True)
class Floor:
    """A control record of rank `rank`: of input `input` no row with a version below `floor` lives."""

    input: int
    floor: int
    rank: int


@dataclass(frozen=True)
class BucketResult:
    """What a bucket's work made; `pointer` None: its state has not changed."""

    pointer: bytes | None
    outputs: list[Output]
    held: list[Held]
    refused: list[Refused]
    counts: Counter[tuple[str, str]]
    stale: int
    products: list[int]


def apply_work(work: Work, floors: Sequence[Floor], state: BucketState, shape: Shape) -> BucketResult:
    """Apply a batch's work to a bucket.

    Again with the same arguments, on the state as it was, it gives the same but for the pointer.
    """
    touches = [*work.touches]
    for each in floors:
        touches += touches_of_floor(state, each.input, each.floor, each.rank)
    applied = apply(touches, state, shape)
    pointer = state.commit(applied.rows) if applied.rows else None
    return BucketResult(
        pointer, applied.outputs, applied.held, work.refused, work.counts, applied.stale, applied.products
    )
