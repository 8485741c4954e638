"""A join that becomes another one: of the rows that the state has, the old outputs against the new ones.

A bucket is gone through in steps, join key by join key. What was gone through makes outputs by the new join from then
on, the rest by the old one, so that changes go on meanwhile.

Where rows keep their join keys, that is all: an output's rows stand under one join key, so the two joins meet there.
Where an input was read anew for another join key, an output may go in one bucket and come in another, and a tombstone
may be told of behind a put that it has nothing to do with. So all buckets are gone through once more, for the new join
alone, and everything is written again: after the first time nothing else is told of by the old one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from include.join.algorithm import versions
from include.join.algorithm.batch import Applied, Held, Output, apply
from include.join.algorithm.multimap import shown_of
from include.join.algorithm.row import (
    Entry,
    PlainTouch,
    Row,
    Touch,
    incomplete_join_key,
    incomplete_key,
    row_place,
    row_prefix,
)
from include.join.algorithm.shape import Shape
from include.join.algorithm.versions import Vector
from include.state.reading import Rows

__all__ = ["BEGIN", "DONE", "Reworked", "apply_partly", "reached", "rework"]

BEGIN: Final = b""
DONE: Final = b"s"
"""Where a step begins that is the first, and behind the last: no row's key is greater."""
_END: Final = 255
"""A slot that nothing has."""


def reached(join_key: bytes, place: bytes) -> bool:
    """Whether a bucket that was gone through up to `place` is through with this join key."""
    return place == DONE or row_prefix(join_key, _END) <= place


@dataclass(slots=True)
class Reworked:
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
    outputs: list[Output] = field(default_factory=list)
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    incomplete: int = 0


def apply_partly(
    touches: Iterable[Touch | PlainTouch], state: Rows, old: Shape, new: Shape, place: bytes
) -> tuple[Applied, Applied]:
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
    state: Rows, old: Shape, new: Shape, rank: int, *, place: bytes, most: int, written: Callable[[bytes], bool]
) -> Reworked:
    """Go through some join keys of a bucket.

    Args:
        state: of the bucket. Rows of slots that the new join has not are removed from it.
        old: the join whose outputs are out.
        new: the one whose outputs take their places.
        rank: of all that is made; greater than any before.
        place: where to begin: `BEGIN`, or where the last step ended.
        most: rows after which a step ends, with the join key that it is at.
        written: of an output's key whether it is written though it is what it was.
    """
    made = Reworked()
    lacking = {incomplete_join_key(key) for key, _ in state.scan(incomplete_key(b""))}
    read = 0
    for join_key, rows in _join_keys(state, place):
        if read >= most:
            break
        read += len(rows)
        made.place = row_prefix(join_key, _END)
        _rework(join_key, rows, old, new, rank, made, written=written, unknown=join_key in lacking)
    else:
        made.place = DONE
    made.outputs.sort(key=lambda output: output.key)
    return made


def _rework(
    join_key: bytes,
    rows: list[tuple[int, bytes, bytes]],
    old: Shape,
    new: Shape,
    rank: int,
    made: Reworked,
    *,
    written: Callable[[bytes], bool],
    unknown: bool,
) -> None:
    kept: dict[int, dict[bytes, Row]] = {}
    for slot, key, value in rows:
        kept.setdefault(slot, {})[key] = Row.from_bytes(value)
    before, after = (_Table(kept, shape) for shape in (old, new))
    size = max(before.size, after.size)
    if size > new.max_product:
        made.held.append(Held(join_key, 0, b"", rank, size))
    else:
        stood = before.outputs()
        for key, (value, vector) in after.outputs().items():
            same = stood.pop(key, (None, ()))[0] == value
            if not same or unknown or written(key):
                made.outputs.append(Output(key, value, versions.of_put(rank), vector))
        for key, (_, vector) in stood.items():
            made.outputs.append(Output(key, None, versions.of_tombstone(rank), vector))
    if unknown is not (size > new.max_product):
        made.rows[incomplete_key(join_key)] = None if unknown else b""
        made.incomplete += -1 if unknown else 1
    places = new.places
    for slot, of_slot in kept.items():
        if slot not in places:
            made.rows |= {row_prefix(join_key, slot) + key: None for key in of_slot}
            made.grown[slot] = made.grown.get(slot, 0) - len(of_slot)


class _Table:
    """The outputs of one join key, of these rows: slot → primary key → value in the state."""

    def __init__(self, kept: dict[int, dict[bytes, Row]], shape: Shape) -> None:
        self._shape = shape
        self._entries: list[list[Entry]] = []
        for slot, place in shape.places.items():
            made = (shape.projection.entry(place, key, row) for key, row in kept.get(slot, {}).items())
            shown = shown_of(entry for entry in made if entry is not None)
            self._entries.append(shown or ([shape.projection.absent(place)] if shape.optional[place] else []))
        self.size = math.prod(map(len, self._entries))

    def outputs(self) -> dict[bytes, tuple[bytes, Vector]]:
        """Key → value, and the versions of its rows."""
        shape = self._shape
        found: dict[bytes, tuple[bytes, Vector]] = {}
        for entries in itertools.product(*self._entries):
            key = shape.key.around(entries[i].group[at] for i, at in shape.key_fields)
            found[key] = shape.value.around(entry.part for entry in entries), tuple(each.version for each in entries)
        return found


def _join_keys(state: Rows, place: bytes) -> Iterator[tuple[bytes, list[tuple[int, bytes, bytes]]]]:
    """Each join key behind `place` with its rows: (slot, primary key, value)."""
    found: Iterator[tuple[bytes, int, bytes, bytes]] = (
        (*row_place(kept), value) for kept, value in state.scan(row_prefix(b"", 0)[:1], place)
    )
    for join_key, rows in itertools.groupby(found, key=lambda row: row[0]):
        yield join_key, [(slot, key, value) for _, slot, key, value in rows]
