"""Cuts that became whole where nobody could tell: by a task that was lost, by another process, before a crash.

They may have lost records, or set some aside, so they are read from the chain as soon as a later cut shows that they
are there. How far a chain was heard is kept over restarts, a minute old at most; what is older than a fresh run folder
is not looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from include.errors import BackPressure, Terminal, Transient
from include.lake.protocol.chain_key import ChainKey
from include.lake.protocol.cut import Commit
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.task import Outcome

__all__ = ["ReadCuts", "UnreportedCuts"]

LOGGER: Final = logging.getLogger("lyrebird.lake")

ReadCuts = Callable[[ChainKey, int], Iterable[Commit]]
"""Commits of a chain from an offset on; raises what the store does."""


class UnreportedCuts:
    """Of one group. `heard`: up to which offset cuts were told, of each place (those of the group start with `of`)."""

    def __init__(self, heard: dict[str, int], of: str, read: ReadCuts) -> None:
        self._heard, self._of, self._read = heard, of, read
        self._holes: list[tuple[TopicIdPartition, ChainKey, int, int]] = []

    def on_outcome(self, outcome: Outcome) -> None:
        """See what this task has told, and what must have been there before it."""
        task = outcome.task
        tp = task.range.tp
        key = f"{self._of}{tp.topic_id}/{tp.partition}"
        known = self._heard.get(key, task.range.head)
        told = [(commit.first, commit.next) for commit in outcome.commits]
        if outcome.head is not None:
            told.append((outcome.head, outcome.head))
        for first, until in told:
            if first > known:
                self._holes.append((tp, task.chain, known, first))
            known = max(known, until)
        self._heard[key] = known

    def found(self) -> list[tuple[TopicIdPartition, Commit]]:
        """Cuts that nobody has told, each once. What cannot be read now is tried again at the next call."""
        cuts: list[tuple[TopicIdPartition, Commit]] = []
        holes, self._holes = self._holes, []
        for tp, chain, first, until in holes:
            try:
                for commit in self._read(chain, first):
                    if commit.first >= until:
                        break
                    cuts.append((tp, commit))
                    first = commit.next
            except (Transient, BackPressure):
                self._holes.append((tp, chain, first, until))
            except Terminal:
                LOGGER.exception("%s cannot be read from %d to %d: what it lost there is not told", chain, first, until)
        return cuts
