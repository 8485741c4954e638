"""A join that becomes another one: of the rows that the state has, the old outputs against the new ones.

A bucket is gone through in steps, join key by join key. What was gone through makes outputs by the new join from then
on, the rest by the old one, so that changes go on meanwhile.

Where rows keep their join keys, that is all: an output's rows stand under one join key, so the two joins meet there.
Where an input was read anew for another join key, an output may go in one bucket and come in another, and a tombstone
may be told of behind a put that it has nothing to do with. So all buckets are gone through once more, for the new join
alone, and everything is written again: after the first time nothing else is told of by the old one.

Of a join key that lacks outputs nobody knows what is out. All that it has now is written. Whatever else rows that left
it may have had out goes too, where no output of another join key has the same key, or the first of two rounds is under
way (`sweep`): only then does it lack nothing any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from include.join.algorithm import versions
from include.join.algorithm.batch import BucketChanges, HeldRecord, JoinOutput, apply, lacking_of
from include.join.algorithm.multimap import shown_of
from include.join.algorithm.row import (
    OutputShare,
    PlainTouch,
    Row,
    Touch,
    incomplete_key,
    left_place,
    left_prefix,
    row_place,
    row_prefix,
)
from include.join.algorithm.shape import JoinShape
from include.join.algorithm.versions import VersionVector
from include.state.reading import BucketRows

__all__ = ["BEGIN", "DONE", "ReworkResult", "apply_partly", "named", "reached", "rework"]

BEGIN: Final = b""
DONE: Final = b"s"
"""Where a step begins that is the first, and behind the last: no row's key is greater."""
_END: Final = 255
"""A slot that nothing has."""


def reached(join_key: bytes, place: bytes) -> bool:
    """Whether a bucket that was gone through up to `place` is through with this join key."""
    return place == DONE or row_prefix(join_key, _END) <= place


@dataclass(slots=True)
class ReworkResult:
    """What a step makes.

    Args:
        place: where the next one begins; `DONE` after the last.
        outputs: what the new join has under a join key and the old one had not, or had otherwise; tombstones of what
            the old one had there and the new one has not. By key.
        rows: changes of the state; None deletes.
        grown: slot → by how many rows the state has more of it.
        held: join keys with more outputs than one change may have: they stay as they were.
        incomplete: by how many join keys more lack outputs.
    """

    place: bytes = DONE
    outputs: list[JoinOutput] = field(default_factory=list)
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)
    held: list[HeldRecord] = field(default_factory=list)
    incomplete: int = 0


def apply_partly(
    touches: Iterable[Touch | PlainTouch], state: BucketRows, old: JoinShape, new: JoinShape, place: bytes
) -> tuple[BucketChanges, BucketChanges]:
    """`apply` for a bucket that was gone through up to `place`: what the old join makes, and what the new one does."""
    ahead: list[Touch] = []
    behind: list[Touch] = []
    of_new = new.places
    for touch in map(Touch.of, touches):
        if not reached(touch.join_key, place):
            ahead.append(touch)
        elif touch.input in of_new:
            behind.append(touch)
    return apply(ahead, state, old), apply(behind, state, new)


def rework(
    state: BucketRows,
    old: JoinShape,
    new: JoinShape,
    rank: int,
    *,
    place: bytes,
    most: int,
    whole: bool = False,
    sweep: bool = False,
) -> ReworkResult:
    """Go through some join keys of a bucket.

    Args:
        state: of the bucket. Rows of slots that the new join has not are removed from it.
        old: the join whose outputs are out.
        new: the one whose outputs take their places.
        rank: of all that is made; greater than any before.
        place: where to begin: `BEGIN`, or where the last step ended.
        most: rows after which a step ends, with the join key that it is at.
        whole: outputs are written also where they are what they were.
        sweep: of join keys that lack outputs, what may be out and is none of theirs goes.
    """
    made = ReworkResult()
    lacking = lacking_of(state)
    read = 0
    for join_key, rows in _with(_join_keys(state, place), lacking, place):
        if read >= most:
            break
        read += len(rows)
        made.place = row_prefix(join_key, _END)
        unknown = join_key in lacking
        left = list(state.scan(left_prefix(join_key))) if unknown and sweep else None
        _rework(join_key, rows, old, new, rank, made, whole=whole or unknown, unknown=unknown, left=left)
    else:
        made.place = DONE
    made.outputs.sort(key=lambda output: output.key)
    return made


def named(state: BucketRows, shape: JoinShape, rank: int, keys: Collection[bytes]) -> list[JoinOutput]:
    """The outputs of these keys, whatever else their join keys have; what the state does not make is missing. By key.

    Reads all rows of the bucket.
    """
    made: list[JoinOutput] = []
    for _, rows in _join_keys(state, BEGIN):
        table = _Table(_by_slot(rows), shape)
        for key, (value, vector) in table.outputs_of(keys).items():
            made.append(JoinOutput(key, value, versions.of_put(rank), vector))
    return sorted(made, key=lambda output: output.key)


def _rework(
    join_key: bytes,
    rows: list[tuple[int, bytes, bytes]],
    old: JoinShape,
    new: JoinShape,
    rank: int,
    made: ReworkResult,
    *,
    whole: bool,
    unknown: bool,
    left: list[tuple[bytes, bytes]] | None,
) -> None:
    """`unknown`: it lacks outputs. `left`: what the state has of rows that left it, if that is to be swept."""
    kept = _by_slot(rows)
    before, after = _Table(kept, old, left), _Table(kept, new)
    size = max(before.size, after.size)
    if size > new.max_product:
        made.held.append(HeldRecord(join_key, 0, b"", rank, size))
    else:
        stood = before.outputs()
        for key, (value, vector) in after.outputs().items():
            same = stood.pop(key, (None, ()))[0] == value
            if not same or whole:
                made.outputs.append(JoinOutput(key, value, versions.of_put(rank), vector))
        for key, (_, vector) in stood.items():
            made.outputs.append(JoinOutput(key, None, versions.of_tombstone(rank), vector))
        if left is not None:
            made.rows |= {each: None for each, _ in left} | {incomplete_key(join_key): None}
            made.incomplete -= 1
    if size > new.max_product and not unknown:
        made.rows[incomplete_key(join_key)] = b""
        made.incomplete += 1
    places = new.places
    for slot, of_slot in kept.items():
        if slot not in places:
            made.rows |= {row_prefix(join_key, slot) + key: None for key in of_slot}
            made.grown[slot] = made.grown.get(slot, 0) - len(of_slot)


def _by_slot(rows: Iterable[tuple[int, bytes, bytes]]) -> dict[int, dict[bytes, Row]]:
    kept: dict[int, dict[bytes, Row]] = {}
    for slot, key, value in rows:
        kept.setdefault(slot, {})[key] = Row.from_bytes(value)
    return kept


class _Table:
    """The outputs of one join key, of these rows: slot → primary key → value in the state.

    With `left` whatever may be out: rows that left the join key take part, and what stands for none of an input.
    """

    def __init__(
        self, kept: dict[int, dict[bytes, Row]], shape: JoinShape, left: Iterable[tuple[bytes, bytes]] | None = None
    ) -> None:
        self._shape = shape
        self._entries: list[list[OutputShare]] = []
        gone: dict[int, list[tuple[bytes, Row]]] = {}
        for each, value in left or ():
            if (place_of := left_place(each)) is not None:
                gone.setdefault(place_of[1], []).append((place_of[2], Row.from_bytes(value)))
        for slot, position in shape.places.items():
            made = (shape.projection.entry(position, key, row) for key, row in kept.get(slot, {}).items())
            shown = shown_of(entry for entry in made if entry is not None)
            absent = [shape.projection.absent(position)] if shape.optional[position] else []
            if left is not None:
                were = (shape.projection.entry(position, key, row) for key, row in gone.get(slot, ()))
                groups = {entry.group: entry for entry in (*were, *absent, *shown) if entry is not None}
                shown = list(groups.values())
            self._entries.append(shown or absent)
        self.size = math.prod(map(len, self._entries))

    def outputs(self) -> dict[bytes, tuple[bytes, VersionVector]]:
        """Key → value, and the versions of its rows."""
        return dict(map(self._output, itertools.product(*self._entries)))

    def outputs_of(self, keys: Collection[bytes]) -> dict[bytes, tuple[bytes, VersionVector]]:
        """Those of these keys; all are made only where they are as few as one record may change."""
        if self.size <= self._shape.max_product:
            return {key: made for key, made in self.outputs().items() if key in keys}
        return dict(self._output(entries) for key in keys for entries in self._of_key(key, {}, ()))

    def _output(self, entries: Sequence[OutputShare]) -> tuple[bytes, tuple[bytes, VersionVector]]:
        shape = self._shape
        key = shape.key.around(entries[i].group[at] for i, at in shape.key_fields)
        return key, (shape.value.around(entry.part for entry in entries), tuple(each.version for each in entries))

    def _of_key(
        self, key: bytes, chosen: dict[int, OutputShare], parts: tuple[bytes, ...]
    ) -> Iterator[tuple[OutputShare, ...]]:
        """The entries whose output has this key, found field by field: `parts` are those so far, of `chosen` inputs."""
        if len(parts) == len(self._shape.key_fields):
            if self._shape.key.around(parts) == key:
                # Inputs without a part in the key have one entry at most.
                rest = [[chosen[i]] if i in chosen else entries for i, entries in enumerate(self._entries)]
                yield from itertools.product(*rest)
            return
        frame, (i, at) = replace(self._shape.key, suffix=b""), self._shape.key_fields[len(parts)]
        for entry in [chosen[i]] if i in chosen else self._entries[i]:
            longer = (*parts, entry.group[at])
            if key.startswith(frame.around(longer)):
                yield from self._of_key(key, {**chosen, i: entry}, longer)


def _with(
    join_keys: Iterable[tuple[bytes, list[tuple[int, bytes, bytes]]]], others: Iterable[bytes], place: bytes
) -> Iterator[tuple[bytes, list[tuple[int, bytes, bytes]]]]:
    """These join keys behind `place` too, in the state's order, without rows where they have none."""
    waiting = sorted((row_prefix(each, 0), each) for each in others if not reached(each, place))
    waiting.reverse()
    for join_key, rows in join_keys:
        while waiting and waiting[-1][0] < row_prefix(join_key, 0):
            yield waiting.pop()[1], []
        if waiting and waiting[-1][1] == join_key:
            waiting.pop()
        yield join_key, rows
    for _, join_key in reversed(waiting):
        yield join_key, []


def _join_keys(state: BucketRows, place: bytes) -> Iterator[tuple[bytes, list[tuple[int, bytes, bytes]]]]:
    """Each join key behind `place` with its rows: (slot, primary key, value)."""
    found: Iterator[tuple[bytes, int, bytes, bytes]] = (
        (*row_place(kept), value) for kept, value in state.scan(row_prefix(b"", 0)[:1], place)
    )
    for join_key, rows in itertools.groupby(found, key=lambda row: row[0]):
        yield join_key, [(slot, key, value) for _, slot, key, value in rows]
