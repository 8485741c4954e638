"""The first stage of inputs whose records do not say where a row stood: primary key → join key.

A record of a plain compacted topic has no image of before. Where the primary key does not hold the join key, the old
join key is looked up here, in a state of its own that is spread by primary key. So are the rows of a table that is
partitioned by other columns than its key: of two records of one row the newer one may lie in a partition that is read
first, and here both meet. So a row that is gone is remembered until all partitions have been read to one point.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from include.join.algorithm.moves import touches_of_change
from include.join.algorithm.row import Row, Touch
from include.state.reading import BucketRows

__all__ = ["LocatedTouches", "RowSighting", "forgotten", "locate"]

_VERSION: Final = struct.Struct(">Q")
_ROW: Final = b"k"
_GONE: Final = b"d"
"""Beside the row itself: it stands nowhere, and is kept for its version alone."""


@dataclass(frozen=True, slots=True)
class RowSighting:
    """A record: the row has this join key from now on; None: it stands under none, or is deleted."""

    input: int
    key: bytes
    rank: int
    version: int
    join_key: bytes | None
    row: Row | None


@dataclass(slots=True)
class LocatedTouches:
    """What the first stage makes of a bucket's sightings: touches, and changes of its state (None deletes)."""

    touches: list[Touch]
    rows: dict[bytes, bytes | None]
    stale: int = 0


def locate(sightings: Iterable[RowSighting], state: BucketRows, *, complete: bool) -> LocatedTouches:
    """Say where each row stood before; in any order, the newer record of a row wins.

    A later version of a row gets no lower rank than an earlier one, so that what it puts is never beaten by what the
    earlier one deletes. `complete`: after this batch no older record of any row is to come.
    """
    ordered = sorted(sightings, key=lambda sighting: (sighting.input, sighting.key, sighting.version, sighting.rank))
    keys = list(dict.fromkeys(_state_key(sighting) for sighting in ordered))
    stood = dict(zip(keys, state.get(keys), strict=True))
    located = LocatedTouches([], {})
    for state_key, of_row in groupby(ordered, key=_state_key):
        _follow(state_key, of_row, stood[state_key], located)
    if complete:
        for mark, _ in state.scan(_GONE):
            gone = _ROW + mark[len(_GONE) :]
            located.rows[mark] = None
            located.rows.setdefault(gone, None)
        for mark in [mark for mark, value in located.rows.items() if mark.startswith(_GONE) and value is not None]:
            located.rows[mark] = located.rows[_ROW + mark[len(_GONE) :]] = None
    return located


def forgotten(state: BucketRows, slots: Collection[int]) -> dict[bytes, None]:
    """What is removed of the state where only rows of these slots are remembered."""
    return {key: None for mark in (_ROW, _GONE) for key, _ in state.scan(mark) if key[len(mark)] not in slots}


def _follow(state_key: bytes, sightings: Iterable[RowSighting], kept: bytes | None, located: LocatedTouches) -> None:
    version, join_key = (-1, b"") if kept is None else (_VERSION.unpack_from(kept)[0], kept[_VERSION.size :])
    rank = 0
    for sighting in sightings:
        if sighting.version <= version:
            located.stale += 1
            continue
        rank = max(rank, sighting.rank)
        located.touches += touches_of_change(
            sighting.input,
            sighting.key,
            rank,
            sighting.version,
            before=join_key or None,
            after=sighting.join_key,
            row=sighting.row,
        )
        version, join_key = sighting.version, sighting.join_key or b""
    value = _VERSION.pack(max(version, 0)) + join_key
    if value == kept:
        return
    located.rows[state_key] = value
    mark = _GONE + state_key[len(_ROW) :]
    if not join_key:
        located.rows[mark] = b""
    elif kept is not None and len(kept) == _VERSION.size:
        located.rows[mark] = None


def _state_key(sighting: RowSighting) -> bytes:
    return _ROW + bytes((sighting.input,)) + sighting.key
