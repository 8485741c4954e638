"""The rows of one join key and input: what the state holds, with what the batch changed so far."""

from __future__ import annotations

from collections.abc import Iterable

from include.join.algorithm.row import OutputShare, Row, row_prefix
from include.join.algorithm.shape import Projection
from include.state.reading import BucketRows

__all__ = ["JoinSide", "shown_of"]

_Groups = dict[tuple[bytes, ...], dict[bytes, OutputShare]]
"""Group → primary key → entry."""


class JoinSide:
    """The rows of one input under one join key.

    Rows that nobody looked up are read once somebody asks for all of them, so a record of an input with many rows under
    the join key does not read its neighbours for nothing.

    Args:
        input: position of the input.
        slot: the number by which the state knows it.
        join_key: its bytes.
        state: of the bucket.
        projection: makes of rows what they bring to outputs.
        kept: primary key → row that was looked up before, None where there is none; changed by `put` and `shown`.
    """

    def __init__(
        self,
        input: int,
        slot: int,
        join_key: bytes,
        state: BucketRows,
        projection: Projection,
        kept: dict[bytes, Row | None],
    ) -> None:
        self._input, self._state, self._projection = input, state, projection
        self._prefix = row_prefix(join_key, slot)
        self._kept = kept
        self._entries: dict[bytes, OutputShare | None] = {}
        self._groups: _Groups | None = None
        self._shown: dict[tuple[bytes, ...], OutputShare] = {}

    def entry(self, key: bytes) -> OutputShare | None:
        """What the row with this primary key, one of `kept`, brings; None when it is not there or filtered."""
        if key not in self._entries:
            self._entries[key] = self.entry_of(key, self._kept[key])
        return self._entries[key]

    def entry_of(self, key: bytes, row: Row | None) -> OutputShare | None:
        """What this row would bring."""
        return None if row is None else self._projection.entry(self._input, key, row)

    def put(self, key: bytes, row: Row | None) -> None:
        """The row stands so from now on; None: it is gone."""
        before, after = self.entry(key), self.entry_of(key, row)
        self._kept[key], self._entries[key] = row, after
        if self._groups is not None:
            self._take_out(self._groups, before)
            self._put_in(self._groups, after)

    def shown(self) -> dict[tuple[bytes, ...], OutputShare]:
        """Group → the entry that stands for it in outputs."""
        if self._groups is None:
            for kept, value in self._state.scan(self._prefix):
                key = kept[len(self._prefix) :]
                if key not in self._kept:
                    self._kept[key] = Row.from_bytes(value)
            self._groups = {}
            for key in self._kept:
                self._put_in(self._groups, self.entry(key))
        return self._shown

    def _put_in(self, groups: _Groups, entry: OutputShare | None) -> None:
        if entry is None:
            return
        groups.setdefault(entry.group, {})[entry.key] = entry
        shown = self._shown.get(entry.group)
        if shown is None or _rank(shown) < _rank(entry):
            self._shown[entry.group] = entry

    def _take_out(self, groups: _Groups, entry: OutputShare | None) -> None:
        if entry is None:
            return
        group = groups[entry.group]
        del group[entry.key]
        if not group:
            del groups[entry.group], self._shown[entry.group]
        elif self._shown[entry.group].key == entry.key:
            self._shown[entry.group] = max(group.values(), key=_rank)


def shown_of(entries: Iterable[OutputShare]) -> list[OutputShare]:
    """Of each group the entry that stands for it."""
    shown: dict[tuple[bytes, ...], OutputShare] = {}
    for entry in entries:
        other = shown.get(entry.group)
        if other is None or _rank(other) < _rank(entry):
            shown[entry.group] = entry
    return list(shown.values())


def _rank(entry: OutputShare) -> tuple[int, bytes]:
    return entry.version or 0, entry.key
