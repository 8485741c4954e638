"""Decides if the index has a reader's own write, and what is next if not. Pure: positions and times are given.

| the caller names | the index has it when | else |
|---|---|---|
| the GTID of its write | a list: `visible` covers it; one document: `complete` | wait a little, then database |
| the id of its latest entity | it is on the page, or there by a realtime read | database, that id alone |

An entity without a final row is not in the index and will not be there soon. That the database has said so is kept
for a while, or each read of its owner would fall back until it is final.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Literal

from include.clock import Clock
from include.record.gtid import parse_gtid_set
from include.record.position import SourcePosition

__all__ = ["FreshnessStep", "UnindexedIds", "covers", "next_step"]

FreshnessStep = Literal["index", "wait", "database"]
"""index: it has the write. wait: ask for its position again. database: it is out of patience."""

_MOST_KEPT: Final = 10_000


def covers(position: SourcePosition | None, written: str) -> bool:
    """Whether everything up to the GTIDs of `written` is below `position`; raises `Terminal` for what is no GTID.

    False as long as there is no position, or one of a server without GTIDs.
    """
    if position is None:
        return False
    return position.gtids.contains(parse_gtid_set(written, position.flavour))  # type: ignore[arg-type]


def next_step(position: SourcePosition | None, written: str, waited_s: float, patience_s: float) -> FreshnessStep:
    """Decides what to do with a read that names its write."""
    if covers(position, written):
        return "index"
    return "wait" if waited_s < patience_s else "database"


class UnindexedIds:
    """Ids of which the database said that they have no document, each for `kept_s`; the oldest give way to new ones."""

    def __init__(self, kept_s: float, clock: Clock, most: int = _MOST_KEPT) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._most = most
        self._until: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, doc_id: str) -> None:
        """Keep it from now on."""
        with self._lock:
            self._until.pop(doc_id, None)
            self._until[doc_id] = self._clock.monotonic_s() + self._kept_s
            while len(self._until) > self._most:
                self._until.popitem(last=False)

    def discard(self, doc_id: str) -> None:
        """Forget it: there is a document."""
        with self._lock:
            self._until.pop(doc_id, None)

    def __contains__(self, doc_id: str) -> bool:
        with self._lock:
            until = self._until.get(doc_id)
            if until is not None and until <= self._clock.monotonic_s():
                del self._until[doc_id]
                until = None
            return until is not None
