"""Fits a snapshot's chunks into the stream, so that no key ever steps back in time.

A chunk was read in a snapshot that has all transactions up to `low` and none beyond `high`. It may go out once the
stream has passed `high`, without the rows whose keys the stream has changed beyond `low`: what it said of those is
newer. So whatever goes out is true at the stream's own position. Changes are noted from before a chunk's snapshot is
opened (`now`) until the chunk has gone out. A chunk of before a TRUNCATE, DROP, RENAME or ALTER of its table that the
stream has passed is of no use.

Notes are bounded in bytes. When there are too many, all of the table that has most are lost, with the stream's position
there: a chunk whose `low` has that position lacks none, as whatever was noted is in its snapshot. Only chunks that the
stream has overtaken are read again, once; so a stream that is far behind lets no snapshot run in circles. Keys are
noted whole: a hash would pass over the row of another key once in a long while, and nobody would know.

After DBLog's watermarks (Andreakis, Papapanagiotou, 2020), without a watermark table: the snapshot tells its own place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from include.record.position import BinlogPosition, SourcePosition
from include.source.rows.shape import EncodedImage

__all__ = ["SnapshotSpan", "StreamPlace", "WatermarkWindow", "WindowVerdict"]

WindowVerdict = Literal["wait", "again", "go"]

# A record's key is its image's behind the id of a schema.
_HEAD: Final = 5
# What a note takes beside its key, about: a text's head and a place in a dict.
_NOTE_BYTES: Final = 120
_MOST_BYTES: Final = 64_000_000
# Each is remembered by its GTID and its end.
_MOST_TRANSACTIONS: Final = 200_000
_PRUNE_AT: Final = 50_000


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """The stream's place: how many transactions it has taken since the job began, and its position after them."""

    number: int
    position: SourcePosition


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """The extent of a snapshot: it shows all up to `low`, nothing beyond `high`; of what is between, anything."""

    low: SourcePosition
    high: SourcePosition


class WatermarkWindow:
    """Notes what the stream changes in `tables` while chunks of them are under way."""

    def __init__(
        self, tables: Iterable[str], most_bytes: int = _MOST_BYTES, most_transactions: int = _MOST_TRANSACTIONS
    ) -> None:
        """`most_bytes`, `most_transactions`: about what notes may take, and how many transactions they may be of."""
        self.tables = frozenset(tables)
        self.number = 0
        self._most_bytes, self._most_transactions = most_bytes, most_transactions
        self._ends: dict[int, tuple[str, BinlogPosition]] = {}
        self._changed: dict[str, dict[bytes, int]] = {table: {} for table in self.tables}
        self._bytes, self._all_bytes = dict.fromkeys(self.tables, 0), 0
        # Tables whose notes overflowed within the present transaction, then until where their notes are lost.
        self._overflowed: set[str] = set()
        self._lost: dict[str, StreamPlace] = {}
        self._altered: dict[str, int] = {}
        self._alters: dict[int, tuple[str, BinlogPosition]] = {}
        self._pruned, self._prune_at = 0, _PRUNE_AT

    def on_transaction(self, gtid: str, end: BinlogPosition) -> None:
        """The next transaction of the stream; what it changes follows."""
        self.number += 1
        self._ends[self.number] = gtid, end

    def on_key(self, table: str, key: bytes) -> None:
        """The transaction changes the row of that record key; `table` is one of `tables`."""
        if table in self._overflowed:
            return
        changed, name = self._changed[table], key[_HEAD:]
        if name not in changed:
            self._bytes[table] += len(name) + _NOTE_BYTES
            self._all_bytes += len(name) + _NOTE_BYTES
        changed[name] = self.number
        if self._all_bytes > self._most_bytes:
            self._lose(max(self._bytes, key=self._bytes.__getitem__))

    def on_alter(self, table: str) -> None:
        """The transaction alters the table, empties it, or takes its name away."""
        if table in self.tables:
            self._altered[table] = self.number
            self._alters[self.number] = self._ends[self.number]

    def verdict(self, table: str, since: StreamPlace, span: SnapshotSpan, position: SourcePosition) -> WindowVerdict:
        """Decides on rows that were read in `span`, opened after `since`, while the stream is at `position`."""
        lost = self._lost.get(table)
        if lost is not None and since.number < lost.number and not span.low.covers(lost.position):
            return "again"
        if self._beyond(self._altered.get(table, 0), since, span.low):
            return "again"
        return "go" if position.covers(span.high) else "wait"

    def fresh(
        self, table: str, since: StreamPlace, low: SourcePosition, images: list[EncodedImage]
    ) -> list[EncodedImage]:
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

    def prune(self, oldest: int, position: SourcePosition) -> None:
        """Forget what went by up to number `oldest`: every chunk under way began later. Call it between transactions.

        `position` is the stream's own: notes that are too many are lost up to there.
        """
        if len(self._ends) > self._most_transactions:
            for table in self.tables:
                self._lose(table)
            self._ends = {}
        if self._overflowed:
            self._lost |= dict.fromkeys(self._overflowed, StreamPlace(self.number, position))
            self._overflowed.clear()
        if oldest <= self._pruned:
            return
        if self._held < self._prune_at and oldest < self.number:
            return
        self._pruned = oldest
        for table, changed in self._changed.items():
            kept = {key: number for key, number in changed.items() if number > oldest}
            self._changed[table] = kept
            self._bytes[table] = sum(map(len, kept)) + len(kept) * _NOTE_BYTES
        self._all_bytes = sum(self._bytes.values())
        self._ends = {number: end for number, end in self._ends.items() if number > oldest}
        self._alters = {number: end for number, end in self._alters.items() if number > oldest}
        self._altered = {table: number for table, number in self._altered.items() if number > oldest}
        self._lost = {table: lost for table, lost in self._lost.items() if lost.number > oldest}
        # Whoever prunes often what he has to keep does nothing else.
        self._prune_at = max(_PRUNE_AT, 2 * self._held)

    @property
    def _held(self) -> int:
        return len(self._ends) + sum(map(len, self._changed.values()))

    def _lose(self, table: str) -> None:
        self._all_bytes -= self._bytes[table]
        self._changed[table], self._bytes[table] = {}, 0
        self._overflowed.add(table)

    def _beyond(self, number: int, since: StreamPlace, low: SourcePosition) -> bool:
        """Whether transaction `number` came after what a snapshot with all up to `low` shows for certain."""
        if number <= since.number:
            return False
        gtid, end = self._ends.get(number) or self._alters[number]
        if gtid:
            return low.gtids.add(gtid) is not low.gtids
        return end > low.binlog
