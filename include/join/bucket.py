"""One bucket's work of one batch: what records do goes in, a new version of its state and outputs come back.

There are two stages of buckets. `whereabouts`, spread by primary keys, knows where rows stand whose records do not say
it; a join without such inputs has none. `rows`, spread by join keys, has the rows and makes the outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from include.join.algorithm.batch import Held, Output, apply
from include.join.algorithm.floors import touches_of_floor
from include.join.algorithm.multimap import Rows
from include.join.algorithm.shape import Shape
from include.join.algorithm.whereabouts import locate
from include.join.gathering import LocatedResult, Refused, Work, bucket_of

__all__ = [
    "BucketKey",
    "BucketResult",
    "BucketState",
    "Floor",
    "Stage",
    "apply_work",
    "locate_work",
]

Stage = Literal["whereabouts", "rows"]
BucketKey = tuple[Stage, int]


class BucketState(Rows, Protocol):
    """A bucket that is open at the version that a pointer names."""

    def commit(self, rows: Mapping[bytes, bytes | None], *, more: Mapping[str, int] | None = None) -> bytes:
        """Make the next version, durably, with these keys put or (None) deleted; its pointer.

        `more` is added to what the pointer counts. The version stands once a transaction has committed the pointer.
        Until then the one before may be opened again.
        """


@dataclass(frozen=True, slots=True)
class Floor:
    """A control record of rank `rank`: of input `input` no row with a version below `floor` lives."""

    input: int
    floor: int
    rank: int


@dataclass(frozen=True)
class BucketResult:
    """What a bucket's work made; `pointer` None: its state has not changed.

    `located`: what was made of the first stage's buckets on the way.
    """

    pointer: bytes | None
    outputs: list[Output]
    held: list[Held]
    refused: list[Refused]
    counts: Counter[tuple[str, str]]
    stale: int
    products: list[int]
    located: Mapping[int, LocatedResult]


def locate_work(bucket: int, work: Work, state: BucketState, *, complete: bool, buckets: int) -> dict[int, Work]:
    """Make touches of a bucket's sightings; gives the work of the second stage, by bucket.

    `complete`: as in `whereabouts.locate`. What the bucket's work has beside sightings goes on to the same bucket, and
    with it what was made here.
    """
    located = locate(work.sightings, state, complete=complete)
    onward = {bucket: Work(work.touches, [], work.refused, work.counts)}
    for touch in located.touches:
        onward.setdefault(bucket_of(touch.join_key, buckets), Work()).touches.append(touch)
    pointer = state.commit(located.rows) if located.rows else None
    onward[bucket].located[bucket] = LocatedResult(pointer, located.stale)
    return onward


def apply_work(work: Work, floors: Sequence[Floor], state: BucketState, shape: Shape) -> BucketResult:
    """Apply a batch's work to a bucket.

    Again with the same arguments, on the state as it was, it gives the same but for the pointer.
    """
    touches = [*work.touches]
    for each in floors:
        touches += touches_of_floor(state, each.input, each.floor, each.rank)
    applied = apply(touches, state, shape)
    grown = {f"input_{number}": by for number, by in applied.grown.items() if by}
    if applied.incomplete:
        grown["incomplete"] = applied.incomplete
    pointer = state.commit(applied.rows, more=grown) if applied.rows else None
    return BucketResult(
        pointer,
        applied.outputs,
        applied.held,
        work.refused,
        work.counts,
        applied.stale,
        applied.products,
        work.located,
    )
