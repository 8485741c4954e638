"""One bucket's share of a batch: from what records do to join keys to the newest record of each output key.

The same touches on the same state give the same outputs and the same state, byte for byte. Other cuts of the same
records into batches give other outputs on the way and the same table in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Final, NamedTuple

from include.join.algorithm import versions
from include.join.algorithm.multimap import JoinSide
from include.join.algorithm.product import Combination, delta
from include.join.algorithm.row import (
    OutputShare,
    PlainTouch,
    Row,
    Touch,
    incomplete_join_key,
    incomplete_key,
    left_key,
    row_input,
    row_key,
)
from include.join.algorithm.shape import JoinShape
from include.join.algorithm.versions import VersionVector
from include.state.reading import BucketRows

__all__ = ["BucketChanges", "HeldRecord", "JoinOutput", "LeftRow", "apply", "finished", "lacking_of", "merged"]

_ANYTHING: Final = object()
"""What stood before, where a record is written whether it differs or not."""


LeftRow = tuple[bytes, int, bytes, tuple[bytes, ...], bytes]
"""A row that left a join key which lacks outputs: join key, slot, primary key, its entry's group, the row as kept."""


class JoinOutput(NamedTuple):
    """A record of the joined topic; `value` None is a tombstone. `version` is its number, without the epoch."""

    key: bytes
    value: bytes | None
    version: int
    vector: VersionVector


class HeldRecord(NamedTuple):
    """A record that would have changed more outputs than allowed: its row is in the state, its outputs are not out."""

    join_key: bytes
    input: int
    key: bytes
    rank: int
    outputs: int


@dataclass(slots=True)
class BucketChanges:
    """What a bucket's share of a batch makes.

    Args:
        rows: changes of the state; None deletes.
        outputs: the newest record of each output key that changed, by key.
        held: see `HeldRecord`.
        stale: touches that a newer version of their row had overtaken.
        products: of each input, the most outputs that one of its records changed.
        grown: slot → by how many rows the state has more of it.
        incomplete: join keys that lack outputs from now on, as some were held, and did not before.
    """

    rows: dict[bytes, bytes | None]
    outputs: list[JoinOutput]
    held: list[HeldRecord]
    stale: int
    products: list[int]
    grown: dict[int, int]
    incomplete: int = 0


def apply(touches: Iterable[Touch | PlainTouch], state: BucketRows, shape: JoinShape) -> BucketChanges:
    """Apply a bucket's touches, in any order, to its state.

    Nothing is written: the caller commits `rows` and `outputs` together. A touch that is older than the row it finds
    does nothing: partitions of an input are read one after another, and a row may have moved between them.

    Of a join key that lacks outputs nobody knows which of them are out, so rows that leave it are remembered: without
    them nobody could say later which outputs have to go (`rework`).
    """
    if shape.compiled is not None:
        made_so: BucketChanges = shape.compiled(touches, state)
        return made_so
    ordered = sorted(map(Touch.of, touches))
    keys = list(dict.fromkeys(row_key(touch.join_key, touch.input, touch.key) for touch in ordered))
    stood = dict(zip(keys, state.get(keys), strict=True))
    places = shape.places
    made = _Made({}, [], 0, [0] * len(places), lacking_of(state), [])
    newest: dict[bytes, JoinOutput] = {}
    for join_key, of_key in groupby(ordered, key=lambda touch: touch.join_key):
        for output in _JoinKey(join_key, list(of_key), stood, state, shape, places).follow(made):
            other = newest.get(output.key)
            if other is None or other.version < output.version:
                newest[output.key] = output
    return finished(made.rows, newest, made.held, made.stale, made.products, stood, state.get, made.left)


def lacking_of(state: BucketRows) -> set[bytes]:
    """The join keys of a bucket that lack outputs."""
    return {key for kept, _ in state.scan(incomplete_key(b"")) if (key := incomplete_join_key(kept)) is not None}


def finished(
    rows: dict[bytes, bytes | None],
    newest: Mapping[bytes, tuple[bytes, bytes | None, int, VersionVector]],
    held: Sequence[tuple[bytes, int, bytes, int, int]],
    stale: int,
    products: list[int],
    stood: Mapping[bytes, bytes | None],
    get: Callable[[Sequence[bytes]], Sequence[bytes | None]],
    left: Iterable[LeftRow] = (),
) -> BucketChanges:
    """Finds what is left to do when all touches were taken in: rows that changed, marks of join keys that lack outputs.

    Args:
        rows: key of the state → the row as kept; None: it is deleted.
        newest: output key → the fields of `JoinOutput`.
        held: the fields of `HeldRecord` for each.
        stale: touches that a newer version of their row had overtaken.
        products: of each input, the most outputs that one of its records changed.
        stood: what the state had of the rows.
        get: values of keys in the state, in their order.
        left: rows that left a join key which lacks outputs.
    """
    gone: dict[bytes, bytes | None] = {
        left_key(join_key, slot, key, group): row for join_key, slot, key, group, row in left
    }
    marks: dict[bytes, bytes | None] = {incomplete_key(join_key): b"" for join_key, *_ in held}
    incomplete = sum(mark is None for mark in get(sorted(marks))) if marks else 0
    rows = {key: value for key, value in rows.items() if value != stood[key]}
    grown: dict[int, int] = {}
    for key, value in rows.items():
        if (value is None) is not (stood[key] is None):
            slot = row_input(key)
            grown[slot] = grown.get(slot, 0) + (1 if value is not None else -1)
    outputs = [JoinOutput(*newest[key]) for key in sorted(newest)]
    return BucketChanges(
        rows | marks | gone, outputs, [HeldRecord(*each) for each in held], stale, products, grown, incomplete
    )


def merged(one: BucketChanges, other: BucketChanges) -> BucketChanges:
    """What two shares make that have no join key in common."""
    newest = {output.key: output for output in one.outputs}
    for output in other.outputs:
        if output.key not in newest or newest[output.key].version < output.version:
            newest[output.key] = output
    return BucketChanges(
        one.rows | other.rows,
        [newest[key] for key in sorted(newest)],
        one.held + other.held,
        one.stale + other.stale,
        [max(both) for both in zip_longest(one.products, other.products, fillvalue=0)],
        {slot: one.grown.get(slot, 0) + other.grown.get(slot, 0) for slot in one.grown | other.grown},
        one.incomplete + other.incomplete,
    )


@dataclass(slots=True)
class _Made:
    rows: dict[bytes, bytes | None]
    held: list[HeldRecord]
    stale: int
    products: list[int]
    lacking: set[bytes]
    left: list[LeftRow]


@dataclass(slots=True)
class _Change:
    """An output key under one join key: what stood before the batch, and what stands now."""

    stood: object
    stands: bytes | None
    rank: int
    vector: VersionVector


class _JoinKey:
    """The touches of one join key, in the order of their ranks."""

    def __init__(
        self,
        join_key: bytes,
        touches: Sequence[Touch],
        stood: dict[bytes, bytes | None],
        state: BucketRows,
        shape: JoinShape,
        places: Mapping[int, int],
    ) -> None:
        self._touches, self._shape, self._places = touches, shape, places
        kept: dict[int, dict[bytes, Row | None]] = {slot: {} for slot in places}
        for touch in touches:
            value = stood[row_key(join_key, touch.input, touch.key)]
            kept.setdefault(touch.input, {})[touch.key] = None if value is None else Row.from_bytes(value)
        self._kept = kept
        self._sides = [JoinSide(i, slot, join_key, state, shape.projection, kept[slot]) for slot, i in places.items()]
        self._changes: dict[bytes, _Change] = {}

    def follow(self, made: _Made) -> list[JoinOutput]:
        """Take the touches in; the outputs that changed."""
        for touch in self._touches:
            row = self._kept[touch.input][touch.key]
            if row is None and (touch.row is None or touch.again):
                continue
            if row is not None and not touch.again and _overtaken(touch, row):
                made.stale += 1
            else:
                self._take(touch, made)
        return [
            JoinOutput(key, change.stands, _number(change), change.vector)
            for key, change in self._changes.items()
            if change.stood != change.stands
        ]

    def _take(self, touch: Touch, made: _Made) -> None:
        kept = None if touch.row is None else touch.row.to_bytes()
        made.rows[row_key(touch.join_key, touch.input, touch.key)] = kept
        position = self._places.get(touch.input)
        if position is None:
            self._kept[touch.input][touch.key] = touch.row
            return
        stood, was = self._kept[touch.input][touch.key], self._sides[position].entry(touch.key)
        changed = delta(touch, position, self._sides, self._shape)
        held = changed.size > self._shape.max_product
        if held:
            made.held.append(HeldRecord(touch.join_key, touch.input, touch.key, touch.rank, changed.size))
            made.lacking.add(touch.join_key)
        if touch.join_key in made.lacking and stood is not None and was is not None:
            self._leave(touch, stood, was, self._sides[position].entry(touch.key), made)
        if held:
            return
        made.products[position] = max(made.products[position], changed.size)
        for before, after in changed.combinations():
            self._note(touch, position, before, after)

    def _leave(self, touch: Touch, stood: Row, before: OutputShare, after: OutputShare | None, made: _Made) -> None:
        """Remember what the row was, unless what it is now has part in the outputs of the same keys."""
        if after is None or after.group != before.group:
            made.left.append((touch.join_key, touch.input, touch.key, before.group, stood.to_bytes()))

    def _note(self, touch: Touch, place: int, before: Combination | None, after: Combination | None) -> None:
        entries = after or before
        if entries is None:
            raise AssertionError("an exchange has a before or an after")
        key = self._shape.key.around(entries[i].group[place] for i, place in self._shape.key_fields)
        vector = [entry.version for entry in entries]
        stands = None
        if after is None:
            vector[place] = touch.version
        else:
            stands = self._value(after)
        change = self._changes.get(key)
        if change is None:
            stood = _ANYTHING if touch.again else None if before is None else self._value(before)
            self._changes[key] = _Change(stood, stands, touch.rank, tuple(vector))
        else:
            change.stands, change.rank, change.vector = stands, touch.rank, tuple(vector)

    def _value(self, entries: Combination) -> bytes:
        return self._shape.value.around(entry.part for entry in entries)


def _overtaken(touch: Touch, row: Row) -> bool:
    return row.version > touch.version if touch.row is None else row.version >= touch.version


def _number(change: _Change) -> int:
    return versions.of_tombstone(change.rank) if change.stands is None else versions.of_put(change.rank)
