"""Floors of change topics: below a table's floor none of its rows lives (control records, design.md §4).

Truncate, drop and the end of a snapshot over a gap say one. The order of the steps is the guarantee:

1. the source's control topic is read to its end, before a record of the batch is worked off,
2. living documents of the table with a lower version become tombstones, of the version just below the floor,
3. the progress document keeps the floor, so that later arrivals below it are superseded.

A crash after 2: the same tombstones are found written; they are older than every row that lives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import InvalidRecord, Terminal, Transient
from include.index.bulk.request import BulkLine, line_bytes
from include.index.bulk.sender import Delivery
from include.index.feed import Feed
from include.index.metadata import Metadata
from include.index.progress.document import IndexProgress
from include.index.server.port import IndexedDocument, SearchIndex
from include.log import topics
from include.log.control import ControlRecord
from include.log.ports import LogReader

__all__ = ["Floors"]

_PAGE: Final = 5000
_BULK_BYTES: Final = 5_000_000
_PATIENCE_S: Final = 60.0


class Floors:
    """Obeys control records in one index. `on_removed` hears of documents that became tombstones."""

    def __init__(
        self, index: SearchIndex, name: str, reader: LogReader, clock: Clock, on_removed: Callable[[int], None]
    ) -> None:
        self._index = index
        self._name = name
        self._reader = reader
        self._clock = clock
        self._on_removed = on_removed

    def look(self, progress: IndexProgress, feed: Callable[[IndexProgress], Feed]) -> IndexProgress:
        """Steps 1 and 2; gives the progress to keep in step 3. Raises `Transient`, `BackPressure`, `Terminal`."""
        name = topics.TopicName.parse(progress.topic)
        if name.kind != "change" or name.source is None:
            # Floors of other topics are theirs to write, as tombstones.
            return progress
        control = topics.control(name.source)
        begins, ends = self._bounds(control)
        if all(progress.control_acked.get(p, 0) >= end for p, end in ends.items()):
            return progress
        floors = dict(progress.floors)
        for p, end in ends.items():
            start = max(progress.control_acked.get(p, 0), begins[p])
            for record in self._reader.read(control, p, start, end):
                if record.value is None:
                    continue
                said = _parsed(record.value, str(record.at))
                if topics.change(name.source, said.database, said.table) == progress.topic:
                    table = f"{said.database}.{said.table}"
                    floors[table] = max(floors.get(table, 0), said.floor)
        moved = replace(progress, floors={t: floor for t, floor in floors.items() if floor}, control_acked=ends)
        floor = max(moved.floors.values(), default=0)
        if floor > max(progress.floors.values(), default=0):
            self._on_removed(self._remove(feed(moved), floor))
        return moved

    def _remove(self, feed: Feed, floor: int) -> int:
        """Make tombstones of all that lives below the floor; gives how many there were."""
        metadata = Metadata(feed.origin)
        removed = 0
        while True:
            self._index.refresh(self._name)
            living = self._index.living_below(self._name, feed.name, floor, _PAGE)
            if not living:
                return removed
            lines = [BulkLine(n, _tombstone(metadata, each, floor), deleted=True) for n, each in enumerate(living)]
            delivered = Delivery(
                functools.partial(self._index.bulk, self._name),
                self._clock,
                index=self._name,
                bulk_bytes=_BULK_BYTES,
                patience_s=_PATIENCE_S,
            ).deliver(lines)
            if delivered.waiting:
                raise Transient("index does not take tombstones", system="elasticsearch", reason=delivered.reason)
            if delivered.dead:
                answer = delivered.dead[0][1]
                raise Terminal("index refuses a tombstone", index=self._name, reason=answer.reason, type=answer.type)
            if not delivered.done:
                raise Terminal(
                    "documents below a floor are newer than they say",
                    index=self._name,
                    topic=feed.name,
                    floor=floor,
                    example=living[0].doc_id,
                    fix="Somebody else writes this index: end that, then rebuild the index.",
                )
            removed += len(delivered.done)

    def _bounds(self, control: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        try:
            return self._reader.begin_offsets(control), self._reader.end_offsets(control)
        except Terminal:
            # Nothing was ever truncated, dropped or snapshotted over a gap.
            return {}, {}


def _tombstone(metadata: Metadata, found: IndexedDocument, floor: int) -> bytes:
    said = found.source["metadata"]
    written = metadata.deleted(said["partition"], said["offset"], said["doc_id"], floor - 1)
    return line_bytes(found.doc_id, floor - 1, b"", None, written, same=True, routing=found.routing)


def _parsed(value: bytes, at: str) -> ControlRecord:
    try:
        return ControlRecord.parse(value)
    except InvalidRecord as error:
        raise Terminal(
            "a control record cannot be understood, so nobody knows which rows live",
            at=at,
            reason=error.details.get("reason"),
            fix="Does a newer capture write it? Upgrade this application.",
        ) from error
