"""One bucket's work of one batch: what records do goes in, a new version of its state and outputs come back.

There are two stages of buckets. `whereabouts`, spread by primary keys, knows where rows stand whose records do not say
it; a join without such inputs has none. `rows`, spread by join keys, has the rows and makes the outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from include.join.algorithm.batch import HeldRecord, JoinOutput, apply, merged
from include.join.algorithm.floors import touches_of_floor
from include.join.algorithm.rework import BEGIN, DONE, apply_partly, named, rework
from include.join.algorithm.shape import JoinShape
from include.join.algorithm.whereabouts import forgotten, locate
from include.join.gathering import LocatedResult, RecordWork, RefusedRecord
from include.record.key import partition_of
from include.state.reading import BucketRows

__all__ = [
    "BucketKey",
    "BucketState",
    "Floor",
    "JoinBucketResult",
    "JoinStage",
    "JoinSuccession",
    "TakeoverStep",
    "apply_work",
    "locate_work",
]

JoinStage = Literal["whereabouts", "rows"]
BucketKey = tuple[JoinStage, int]


class BucketState(BucketRows, Protocol):
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
class JoinBucketResult:
    """What a bucket's work made; `pointer` None: its state has not changed.

    `located`: what was made of the first stage's buckets on the way. `place`: where a step ended.
    """

    pointer: bytes | None
    outputs: list[JoinOutput]
    held: list[HeldRecord]
    refused: list[RefusedRecord]
    counts: Counter[tuple[str, str]]
    stale: int
    products: list[int]
    located: Mapping[int, LocatedResult]
    place: bytes | None = None


@dataclass(frozen=True, slots=True)
class TakeoverStep:
    """A step of a takeover, or a repair.

    Args:
        rank: of its own.
        most: rows of a bucket after which it ends.
        whole: all outputs are written.
        sweep: see `rework`.
        keys: of outputs that are written, and nothing else is done; empty: not a repair of some.
    """

    rank: int
    most: int
    whole: bool = False
    sweep: bool = False
    keys: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class JoinSuccession:
    """The join that takes the place, and up to where the bucket's outputs are its own.

    `begin`: where a step begins.
    """

    shape: JoinShape
    place: bytes
    begin: bytes = BEGIN


def locate_work(
    bucket: int,
    work: RecordWork,
    state: BucketState,
    *,
    complete: bool,
    buckets: int,
    only: Collection[int] | None = None,
) -> dict[int, RecordWork]:
    """Makes touches of a bucket's sightings. Commits what it has learnt of rows.

    What the bucket's work has beside sightings goes on to the same bucket, and with it what was made here.

    Args:
        bucket: its number.
        work: of this bucket.
        state: the bucket of the first stage, open.
        complete: no older record of any row is to come after this batch.
        buckets: how many the second stage has.
        only: the slots whose rows are remembered from now on; None: all.

    Returns:
        Bucket → its work in the second stage.
    """
    located = locate(work.sightings, state, complete=complete)
    if only is not None:
        located.rows |= forgotten(state, only)
    onward = {bucket: RecordWork(work.touches, [], work.refused, work.counts)}
    for touch in located.touches:
        onward.setdefault(partition_of(touch.join_key, buckets), RecordWork()).touches.append(touch.plain())
    pointer = state.commit(located.rows) if located.rows else None
    onward[bucket].located[bucket] = LocatedResult(pointer, located.stale)
    return onward


def apply_work(
    work: RecordWork,
    floors: Sequence[Floor],
    state: BucketState,
    shape: JoinShape,
    succession: JoinSuccession | None = None,
    step: TakeoverStep | None = None,
) -> JoinBucketResult:
    """Applies a batch's work to a bucket; or (`step`) goes on with a succession there, without other work.

    Again with the same arguments, on the state as it was, it gives the same but for the pointer.

    Args:
        work: of this bucket.
        floors: that the batch brings.
        state: the bucket, open.
        shape: of the join.
        succession: the join that takes its place, and how far it has come; None: there is none.
        step: of a takeover, or a repair; None: the batch's work is applied.

    Raises:
        Terminal: a floor meets a key of the state that is no row's.
    """
    if step is not None:
        return _stepped(state, shape, succession or JoinSuccession(shape, BEGIN), step, work)
    touches = [*work.touches]
    for each in floors:
        touches += (touch.plain() for touch in touches_of_floor(state, each.input, each.floor, each.rank))
    if succession is None:
        applied = apply(touches, state, shape)
    else:
        applied = merged(*apply_partly(touches, state, shape, succession.shape, succession.place))
    grown = {f"input_{number}": by for number, by in applied.grown.items() if by}
    if applied.incomplete:
        grown["incomplete"] = applied.incomplete
    pointer = state.commit(applied.rows, more=grown) if applied.rows else None
    return JoinBucketResult(
        pointer,
        applied.outputs,
        applied.held,
        work.refused,
        work.counts,
        applied.stale,
        applied.products,
        work.located,
    )


def _stepped(
    state: BucketState, shape: JoinShape, succession: JoinSuccession, step: TakeoverStep, work: RecordWork
) -> JoinBucketResult:
    nothing = [0] * len(shape.optional)
    if step.keys:
        outputs = named(state, shape, step.rank, step.keys)
        return JoinBucketResult(None, outputs, [], work.refused, work.counts, 0, nothing, work.located, DONE)
    old = succession.shape if step.whole else shape
    made = rework(
        state,
        old,
        succession.shape,
        step.rank,
        place=succession.begin,
        most=step.most,
        whole=step.whole,
        sweep=step.sweep,
    )
    grown = {f"input_{slot}": by for slot, by in made.grown.items()}
    if made.incomplete:
        grown["incomplete"] = made.incomplete
    pointer = state.commit(made.rows, more=grown) if made.rows else None
    return JoinBucketResult(
        pointer, made.outputs, made.held, work.refused, work.counts, 0, nothing, work.located, made.place
    )
