"""Finds the source position that an index is complete to, from the topic's resolved records.

A record says: all changes up to P lie below these offsets. Once the index has settled every one of them it is
complete to P. Records are read beside the data, so one may be known before the data that it speaks of is settled:
it then waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from include.errors import InvalidRecord
from include.index.progress.document import IndexProgress
from include.log.ports import Record
from include.log.resolved import ResolvedRecord, ResolvedView

__all__ = ["Completeness"]

_MOST_WAITING: Final = 1000


class Completeness:
    """Follows the resolved topic of one topic, from where a progress document left it."""

    def __init__(self, progress: IndexProgress) -> None:
        self._topic = progress.topic
        self._view = ResolvedView()
        self._waiting: deque[tuple[Mapping[int, int], ResolvedRecord]] = deque()
        self._last: ResolvedRecord | None = None
        if progress.newest is not None:
            self._take(progress.newest.value())

    def on_records(self, records: list[Record]) -> list[tuple[Record, InvalidRecord]]:
        """Take records in offset order, any of them again; gives those that are none."""
        refused = []
        for record in sorted(records, key=lambda r: r.offset):
            try:
                self._take(record.value)
            except InvalidRecord as error:
                refused.append((record, error))
        return refused

    def apply(self, progress: IndexProgress) -> IndexProgress:
        """`progress` with the last position whose offsets its `acked` covers; call once for each batch."""
        if self._last is not None:
            progress = replace(progress, newest=self._last)
        while self._waiting:
            ends, record = self._waiting[0]
            if any(progress.acked.get(p, 0) < offset for p, offset in ends.items()):
                break
            self._waiting.popleft()
            progress = replace(progress, complete=record.position, uncovered=record.uncovered)
        return progress

    def _take(self, value: bytes | None) -> None:
        record = self._view.on_record(value)
        ends = self._view.ends()
        if record is None or ends is None:
            return
        self._last = replace(record, next_offsets=ends, full=True, state={}, changes=None)
        self._waiting.append(({p: offset for (topic, p), offset in ends.items() if topic == self._topic}, record))
        if len(self._waiting) > _MOST_WAITING:
            # Far behind, every second position does: the last one always stays.
            kept = list(self._waiting)
            self._waiting = deque([*kept[:-1:2], kept[-1]])
