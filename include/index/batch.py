"""Settles a batch on the driver, once its tasks are through.

The order of these steps is the guarantee:

1. every record of the batch is settled in the index (the tasks did that; versions make it safe to do again),
2. what was set aside is committed to the dead-letter topics, in one Kafka transaction with the batch's end offsets,
3. a refresh, once `refresh_s` have passed since the last one, makes all of it visible to searches,
4. the progress document of each topic moves to those ends, with what became of how many records.

When no further batch comes, `freshen` does 3 and 4 for what was left, and writes the documents now and then as they
are: a start goes by how old they are (`opening`).

A crash after 1: the batch is read again, all of it is stale, dead letters are written then. After 2: the same, but
its dead letters lie below the committed offsets and are skipped. After 3: the same, and nothing says yet that searches
see it. Between two topics' documents in 4: the one is read again, the other goes on. So no record is lost, no dead
letter doubled, and each record is counted once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from include.clock import Clock
from include.errors import Terminal
from include.index.dead_letters import DeadLetters
from include.index.outcome import SetAsideRecord, TaskOutcome
from include.index.progress.completeness import Completeness
from include.index.progress.document import IndexProgress, ProgressKeeper
from include.index.progress.steps import advanced, counted, greatest, seen_by_searches
from include.index.server.port import IndexInfo, SearchIndex
from include.log.topics import resolved_of

__all__ = ["Settlement"]

_STILL_S: Final = 600.0


class Settlement:
    """Steps 2 to 4 for one index and all its topics. One process at a time: keepers and the writer fence older ones.

    Its methods may be called from several threads.

    Args:
        info: the index, as it was opened.
        index: the server that holds it.
        keepers: topic → keeper of the index's progress document.
        progress: topic → what the index is complete to, as its progress document has it.
        letters: the writer of dead letters.
        clock: measures time between refreshes, and between writes of progress.
        refresh_s: least seconds between two refreshes.
    """

    def __init__(
        self,
        *,
        info: IndexInfo,
        index: SearchIndex,
        keepers: Mapping[str, ProgressKeeper],
        progress: Mapping[str, IndexProgress],
        letters: DeadLetters,
        clock: Clock,
        refresh_s: float = 0.0,
    ) -> None:
        self.info = info
        self.progress = dict(progress)
        self._index = index
        self._keepers = keepers
        self._letters = letters
        self._clock = clock
        self._complete = {topic: Completeness(of) for topic, of in progress.items()}
        self._refresh_s = refresh_s
        self._refreshed_s: float | None = None
        self._saved_s = clock.monotonic_s()
        self._turn = threading.Lock()

    def settle(
        self, outcome: TaskOutcome, ends: Mapping[tuple[str, int], int], topic_ids: Mapping[str, str]
    ) -> Mapping[str, IndexProgress]:
        """Steps 2 to 4. Raises `Fenced`, `Transient`, or `Terminal` when the index or the deploy is bad."""
        if outcome.waiting or outcome.fault:
            raise Terminal("batch is not settled", index=self.info.name, reason=outcome.reason)
        with self._turn:
            aside = {topic: [one for one in outcome.dead if one.record.topic == topic] for topic in self.progress}
            for topic, complete in self._complete.items():
                name = resolved_of(topic)
                refused = complete.on_records([record for record in outcome.others if record.topic == name])
                aside[topic] += [SetAsideRecord(record, str(error)) for record, error in refused]
            self._require_same_index()
            read = {topic: sum(of["read"] for of in outcome.of_topic(topic).values()) for topic in self.progress}
            known = {topic: found for of in self.progress.values() for topic, found in of.topic_ids.items()}
            self._letters.settle(self.info, aside, read, ends, known | dict(topic_ids))
            self._save(
                self._searchable({t: self._moved(of, outcome, ends, topic_ids) for t, of in self.progress.items()})
            )
            return self.progress

    def freshen(self) -> Mapping[str, IndexProgress]:
        """Steps 3 and 4 when a refresh is due and searches lack something, or nothing was written for long.

        Raises as `settle`.
        """
        with self._turn:
            self._save(self._searchable(self.progress))
            if self._clock.monotonic_s() >= self._saved_s + _STILL_S:
                for topic, progress in self.progress.items():
                    self._keepers[topic].save(progress)
                self._saved_s = self._clock.monotonic_s()
            return self.progress

    def note(self, progress: IndexProgress) -> None:
        """Keep what was learnt of a topic before its records are worked off; raises as `settle`."""
        with self._turn:
            self._save({progress.topic: progress})

    def _moved(
        self,
        progress: IndexProgress,
        outcome: TaskOutcome,
        ends: Mapping[tuple[str, int], int],
        topic_ids: Mapping[str, str],
    ) -> IndexProgress:
        resolved = resolved_of(progress.topic)
        acked = {p: offset for (topic, p), offset in ends.items() if topic == progress.topic}
        read = {p: offset for (topic, p), offset in ends.items() if topic == resolved}
        own = {topic: topic_ids[topic] for topic in (progress.topic, resolved) if topic in topic_ids}
        moved = replace(
            advanced(progress, acked, read),
            topic_ids={**progress.topic_ids, **own},
            epochs=greatest(
                progress.epochs, {p: e for (topic, p), e in outcome.epochs.items() if topic == progress.topic}
            ),
        )
        moved = self._complete[progress.topic].apply(moved)
        # Settled before, when another topic's document could not be written: its records are counted already.
        again = all(progress.acked.get(p, 0) >= offset for p, offset in acked.items())
        return moved if again else counted(moved, outcome.of_topic(progress.topic))

    def _searchable(self, moved: Mapping[str, IndexProgress]) -> Mapping[str, IndexProgress]:
        """`moved`, after a refresh if one is due and there is something to show."""
        now_s = self._clock.monotonic_s()
        due = self._refreshed_s is None or now_s >= self._refreshed_s + self._refresh_s
        seen = {topic: seen_by_searches(of) for topic, of in moved.items()}
        if not due or seen == moved:
            return moved
        self._index.refresh(self.info.name)
        self._refreshed_s = now_s
        return seen

    def _save(self, moved: Mapping[str, IndexProgress]) -> None:
        for topic, progress in moved.items():
            if progress != self.progress[topic]:
                self._keepers[topic].save(progress)
                self.progress[topic] = progress
                self._saved_s = self._clock.monotonic_s()

    def _require_same_index(self) -> None:
        found = self._index.describe(self.info.name)
        if found is None or found.uuid != self.info.uuid:
            alias = self.info.name.rpartition("-v")[0]
            raise Terminal(
                "index was lost or made anew while it was written",
                index=self.info.name,
                fix=f"Run `lyrebird index rebuild {alias}`, then `lyrebird index promote {alias}`.",
            )
