"""A join that becomes another one while changes go on: what a sink has in the end is what SQL says of the new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from include.join.algorithm.batch import BucketChanges, JoinOutput
from include.join.algorithm.rework import BEGIN, DONE, apply_partly, rework
from include.join.algorithm.row import Row, Touch, incomplete_key, row_key
from include.join.algorithm.shape import JoinShape
from tests.support.joins.histories import History, Run, State, expected, table_of

pytestmark = pytest.mark.unit


class Reworked(Run):
    """A history whose join becomes another one somewhere on the way."""

    def __init__(self, history: History, old: JoinShape, often: float = 0.6) -> None:
        super().__init__(history)
        self.old, self.places, self.often = old, [BEGIN for _ in self.states], often
        self.written: list[JoinOutput] = []

    def _applied(self, bucket: int, touches: list[Touch]) -> list[BucketChanges]:
        return list(apply_partly(touches, self.states[bucket], self.old, self.shape, self.places[bucket]))

    def batch(self, ends: Sequence[Sequence[int]], floors_ends: Sequence[int]) -> None:
        super().batch(ends, floors_ends)
        if self.history.draw.random() < self.often:
            self.step(self.history.draw.randrange(len(self.states)))

    def step(self, bucket: int, *, whole: bool = False, sweep: bool = False) -> None:
        if self.places[bucket] == DONE:
            return
        self.base += 1
        most = self.history.draw.choice([1, 3, 100])
        place, state = self.places[bucket], self.states[bucket]
        old = self.shape if whole else self.old
        made = rework(state, old, self.shape, self.base, place=place, most=most, whole=whole, sweep=sweep)
        state.take(made.rows)
        self.places[bucket] = made.place
        self.outputs += made.outputs
        self.written += made.outputs

    def to_the_end(self) -> None:
        super().to_the_end()
        while any(place != DONE for place in self.places):
            for bucket in range(len(self.places)):
                self.step(bucket)


def narrowed(shape: JoinShape) -> JoinShape:
    """The same join without its last input."""
    n = len(shape.optional) - 1
    return replace(
        shape,
        optional=shape.optional[:n],
        distinct=shape.distinct[:n],
        sole=shape.sole[:n],
        key_fields=shape.key_fields[:n],
    )


def other_filters(history: History) -> JoinShape:
    """The same join with other `where` and `type`."""
    other = History(history.seed, grouped=history.grouped)
    other.where = tuple(not each for each in history.where)
    if not history.alone(0):
        # Which rows are kept stays as it is.
        other.optional = (False, *(False for _ in history.optional[1:]))
    return other.shape()


@pytest.mark.parametrize("grouped", [False, True])
def test_a_join_with_other_filters_takes_the_place_of_the_old_one(grouped: bool) -> None:
    for seed in range(300):
        history = History(seed, grouped=grouped)
        run = Reworked(history, other_filters(history))
        run.to_the_end()
        assert table_of(run.outputs) == expected(history), seed


@pytest.mark.parametrize("grouped", [False, True])
def test_outputs_that_were_held_come_and_go_once_the_limit_allows_them(grouped: bool) -> None:
    held = left = 0
    for seed in range(400):
        history = History(seed, changes=60, grouped=grouped)
        run = Reworked(history, history.shape(max_product=1 + seed % 3), often=0)
        Run.to_the_end(run)
        held += sum(key[:1] == b"i" for state in run.states for key in state)
        left += sum(key[:1] == b"l" for state in run.states for key in state)
        for whole in (False, True):
            run.places = [BEGIN for _ in run.states]
            while any(place != DONE for place in run.places):
                for bucket in range(len(run.places)):
                    run.step(bucket, whole=whole, sweep=not whole)
        assert table_of(run.outputs) == expected(history), seed
        assert not [key for state in run.states for key in state if key[:1] != b"r"], seed
    assert held > 100
    assert left > 100


@pytest.mark.parametrize("grouped", [False, True])
def test_an_input_whose_rows_were_kept_silently_enters_the_join(grouped: bool) -> None:
    tried = 0
    for seed in range(300):
        history = History(seed, grouped=grouped)
        shape = history.shape()
        old = narrowed(shape)
        if len(history.optional) < 3 or old.alone is not shape.alone:
            continue
        tried += 1
        run = Reworked(history, old)
        run.to_the_end()
        assert table_of(run.outputs) == expected(history), seed
    assert tried > 100


def test_a_join_that_stays_the_same_writes_nothing_again() -> None:
    for seed in range(100):
        history = History(seed)
        run = Reworked(history, history.shape())
        run.to_the_end()
        assert table_of(run.outputs) == expected(history), seed
        assert not run.written


def filled(*rows: tuple[int, bytes]) -> State:
    """A bucket with rows of one join key: (slot, primary key)."""
    state = State()
    state.take({row_key(b"\x011", slot, key): Row(1, 0, b"[1,0,0]").to_bytes() for slot, key in rows})
    return state


def two_inputs(most: int = 100) -> JoinShape:
    history = next(h for h in map(History, range(10_000)) if h.optional == (False, False) and not any(h.where))
    return history.shape(most)


def test_rows_of_slots_that_the_new_join_has_not_are_removed() -> None:
    state = filled((0, b"a"), (1, b"b"), (2, b"a"), (3, b"b"))
    made = rework(
        state,
        two_inputs(),
        replace(two_inputs(), slots=(2, 3)),
        7,
        place=BEGIN,
        most=100,
        whole=True,
    )
    assert [(each.key, each.value, each.version) for each in made.outputs] == [(b"<a,b>", b"(0,0)", 15)]
    assert made.rows == {row_key(b"\x011", 0, b"a"): None, row_key(b"\x011", 1, b"b"): None}
    assert made.grown == {0: -1, 1: -1}


def test_a_join_key_with_more_outputs_than_allowed_is_held_and_marked_until_it_has_fewer() -> None:
    state = filled((0, b"a"), (0, b"c"), (1, b"b"))
    few, many = two_inputs(1), two_inputs(2)
    first = rework(state, many, few, 7, place=BEGIN, most=100, whole=True)
    assert (first.outputs, [held.outputs for held in first.held], first.incomplete) == ([], [2], 1)
    state.take(first.rows)
    assert incomplete_key(b"\x011") in state
    # What is out of an incomplete join key nobody knows: all of it is written, also what did not change.
    second = rework(state, few, many, 8, place=BEGIN, most=100, sweep=True)
    assert ([each.key for each in second.outputs], second.held, second.incomplete) == ([b"<a,b>", b"<c,b>"], [], -1)
    state.take(second.rows)
    assert incomplete_key(b"\x011") not in state
