"""Where a snapshot's chunks are sewn to the stream, so that no key ever steps back in time.

A chunk was read in a snapshot that has all transactions up to `low` and none beyond `high`. It may go out once the
stream has passed `high`, without the rows whose keys the stream has changed beyond `low`: what it said of those is
newer. So whatever goes out is true at the stream's own position. Changes are noted from before a chunk's snapshot is
opened (`now`) until the chunk has gone out. A chunk of before a TRUNCATE, DROP, RENAME or ALTER of its table that the
stream has passed is of no use.

After DBLog's watermarks (Andreakis, Papapanagiotou, 2020), without a watermark table: the snapshot tells its own place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from include.record.position import BinlogPosition, SourcePosition
from include.source.rows.shape import Image

__all__ = ["Now", "Seam", "Span", "Verdict"]

Verdict = Literal["wait", "again", "go"]

# A record's key is its image's behind the id of a schema.
_HEAD: Final = 5
_MOST_KEYS: Final = 1_000_000
_PRUNE_AT: Final = 50_000


@dataclass(frozen=True, slots=True)
class Now:
    """The stream's place: how many transactions it has taken since the job began, and its position after them."""

    number: int
    position: SourcePosition


@dataclass(frozen=True, slots=True)
class Span:
    """What a snapshot shows: all up to `low`, nothing beyond `high`; of what is between, anything."""

    low: SourcePosition
    high: SourcePosition


class Seam:
    """Notes what the stream changes in `tables` while chunks of them are under way."""

    def __init__(self, tables: Iterable[str]) -> None:
        self.tables = frozenset(tables)
        self.number = 0
        self._ends: dict[int, tuple[str, BinlogPosition]] = {}
        self._changed: dict[str, dict[bytes, int]] = {table: {} for table in self.tables}
        self._altered: dict[str, int] = {}
        self._forgotten = 0

    def on_transaction(self, gtid: str, end: BinlogPosition) -> None:
        """The next transaction of the stream; what it changes follows."""
        self.number += 1
        self._ends[self.number] = gtid, end

    def on_key(self, table: str, key: bytes) -> None:
        """The transaction changes the row of that record key; `table` is one of `tables`."""
        self._changed[table][key[_HEAD:]] = self.number

    def on_alter(self, table: str) -> None:
        """The transaction alters the table, empties it, or takes its name away."""
        if table in self.tables:
            self._altered[table] = self.number

    def verdict(self, table: str, since: Now, span: Span, position: SourcePosition) -> Verdict:
        """What to do with rows that were read in `span`, opened after `since`, while the stream is at `position`."""
        if since.number < self._forgotten or self._beyond(self._altered.get(table, 0), since, span.low):
            return "again"
        return "go" if position.covers(span.high) else "wait"

    def fresh(self, table: str, since: Now, low: SourcePosition, images: list[Image]) -> list[Image]:
        """The rows that the stream has not changed beyond `low`."""
        changed = self._changed[table]
        if not changed:
            return images
        newer: dict[int, bool] = {}
        kept = []
        for image in images:
            number = changed.get(image.key)
            if number is not None:
                beyond = newer.get(number)
                if beyond is None:
                    beyond = newer[number] = self._beyond(number, since, low)
                if beyond:
                    continue
            kept.append(image)
        return kept

    def prune(self, oldest: int) -> None:
        """Forget what went by up to number `oldest`: every chunk under way began later.

        Beyond a million keys all is forgotten: chunks of before have to be read again.
        """
        keys = sum(map(len, self._changed.values()))
        if not self._ends or (keys < _PRUNE_AT and len(self._ends) < _PRUNE_AT and oldest < self.number):
            return
        if keys > _MOST_KEYS:
            oldest = self._forgotten = self.number
        for table, changed in self._changed.items():
            self._changed[table] = {key: number for key, number in changed.items() if number > oldest}
        self._ends = {number: end for number, end in self._ends.items() if number > oldest}
        self._altered = {table: number for table, number in self._altered.items() if number > oldest}

    def _beyond(self, number: int, since: Now, low: SourcePosition) -> bool:
        """Whether transaction `number` came after what a snapshot with all up to `low` shows for certain."""
        if number <= since.number:
            return False
        gtid, end = self._ends[number]
        if gtid:
            return low.gtids.add(gtid) is not low.gtids
        return end > low.binlog
