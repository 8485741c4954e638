"""The rows of one join key and input: what the state holds, with what the batch changed so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from include.join.algorithm.row import Entry, Row, row_prefix
from include.join.algorithm.shape import Projection

__all__ = ["Rows", "Side"]

_Groups = dict[tuple[bytes, ...], dict[bytes, Entry]]
"""Group → primary key → entry."""


class Rows(Protocol):
    """A bucket's state, for reading."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of these keys, in their order."""

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """All keys that begin so, with their values, in the keys' order."""


class Side:
    """The rows of one input under one join key.

    `kept`: rows that were looked up before, None where there is none. The others are read once somebody asks for all
    of them, so a record of an input with many rows under the join key does not read its neighbours for nothing.
    """

    def __init__(
        self, input: int, join_key: bytes, state: Rows, projection: Projection, kept: dict[bytes, Row | None]
    ) -> None:
        self._input, self._join_key, self._state, self._projection = input, join_key, state, projection
        self._kept = kept
        self._entries: dict[bytes, Entry | None] = {}
        self._groups: _Groups | None = None
        self._shown: dict[tuple[bytes, ...], Entry] = {}

    def row(self, key: bytes) -> Row | None:
        """The row with this primary key, which must be among `kept`."""
        return self._kept[key]

    def entry(self, key: bytes) -> Entry | None:
        """What the row with this primary key, one of `kept`, brings; None when it is not there or filtered."""
        if key not in self._entries:
            self._entries[key] = self.entry_of(key, self._kept[key])
        return self._entries[key]

    def entry_of(self, key: bytes, row: Row | None) -> Entry | None:
        """What this row would bring."""
        return None if row is None else self._projection.entry(self._input, key, row)

    def put(self, key: bytes, row: Row | None) -> None:
        """The row stands so from now on; None: it is gone."""
        before, after = self.entry(key), self.entry_of(key, row)
        self._kept[key], self._entries[key] = row, after
        if self._groups is not None:
            self._take_out(self._groups, before)
            self._put_in(self._groups, after)

    def shown(self) -> dict[tuple[bytes, ...], Entry]:
        """Group → the entry that stands for it in outputs."""
        if self._groups is None:
            prefix = row_prefix(self._join_key, self._input)
            for kept, value in self._state.scan(prefix):
                key = kept[len(prefix) :]
                if key not in self._kept:
                    self._kept[key] = Row.from_bytes(value)
            self._groups = {}
            for key in self._kept:
                self._put_in(self._groups, self.entry(key))
        return self._shown

    def _put_in(self, groups: _Groups, entry: Entry | None) -> None:
        if entry is None:
            return
        groups.setdefault(entry.group, {})[entry.key] = entry
        shown = self._shown.get(entry.group)
        if shown is None or _rank(shown) < _rank(entry):
            self._shown[entry.group] = entry

    def _take_out(self, groups: _Groups, entry: Entry | None) -> None:
        if entry is None:
            return
        group = groups[entry.group]
        del group[entry.key]
        if not group:
            del groups[entry.group], self._shown[entry.group]
        elif self._shown[entry.group].key == entry.key:
            self._shown[entry.group] = max(group.values(), key=_rank)


def _rank(entry: Entry) -> tuple[int, bytes]:
    return entry.version or 0, entry.key
