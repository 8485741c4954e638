"""Orders moments of one server, and finds the first that has a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key

from include.errors import Terminal
from include.record.position import BinlogPosition, SourcePosition

__all__ = ["Moments"]


class Moments:
    """Positions of one server, in their order, each once."""

    def __init__(self, positions: Iterable[SourcePosition]) -> None:
        """Raises `Terminal` for two positions of which neither has all that the other has."""
        self._sorted: list[SourcePosition] = []
        for each in sorted(positions, key=cmp_to_key(_compared)):
            if not self._sorted or not self._sorted[-1].covers(each):
                self._sorted.append(each)
        self._known: dict[tuple[str | None, str, int], int] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sorted)

    def place(self, position: SourcePosition) -> int:
        """The first moment that has all up to `position`; as many as there are where none has."""
        return self._first(lambda moment: moment.covers(position))

    def place_of(self, gtid: str | None, file: str, pos: int) -> int:
        """The first moment that has a transaction, by its GTID, else by where it ends in the binlog."""
        name = gtid, file, pos
        index = self._known.get(name)
        if index is None:
            end = BinlogPosition(file, pos)
            by_gtid = gtid is not None and not gtid.startswith(file)
            index = self._known[name] = self._first(
                lambda moment: (
                    moment.gtids.add(gtid or "") is moment.gtids
                    if by_gtid and str(moment.gtids)
                    else end <= moment.binlog
                )
            )
        return index

    def _first(self, has: Callable[[SourcePosition], bool]) -> int:
        low, high = 0, len(self._sorted)
        while low < high:
            middle = (low + high) // 2
            if has(self._sorted[middle]):
                high = middle
            else:
                low = middle + 1
        return low


def _compared(one: SourcePosition, other: SourcePosition) -> int:
    if one.covers(other):
        return 0 if other.covers(one) else 1
    if other.covers(one):
        return -1
    raise Terminal(
        "two positions of a server have each what the other lacks",
        one=str(one.gtids),
        other=str(other.gtids),
        fix="Was the server replaced meanwhile? Compare again.",
    )
