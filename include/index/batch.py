"""What the driver does once the tasks of a batch are through.

The order of these steps is the guarantee:

1. every record of the batch is settled in the index (the tasks did that; versions make it safe to do again),
2. what was set aside is committed to the dead-letter topic, in one Kafka transaction with the batch's end offsets,
3. the progress document moves to those ends.

A crash after 1: the batch is read again, all of it is stale, dead letters are written then. After 2: the same, but
its dead letters lie below the committed offsets and are skipped. So no record is lost and no dead letter doubled.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from include.clock import Clock
from include.errors import Terminal
from include.index.complete import Completeness
from include.index.port import IndexInfo, SearchIndex
from include.index.progress import Progress, ProgressKeeper, advanced
from include.index.task import SetAside, TaskOutcome
from include.log import topics
from include.log.dead_letter import DeadLetter, DeadLetterLimit
from include.log.ports import LogReader, LogWriter

__all__ = ["Settlement", "dead_group"]

logger = logging.getLogger(__name__)


def dead_group(application: str, topic: str) -> str:
    """Transactional id of the dead-letter writer, and the group that its input offsets are committed for."""
    return f"{application}.{topic}.dead"


class Settlement:
    """Steps 2 and 3 for one index and topic. One process at a time: the keeper and the writer fence older ones."""

    def __init__(
        self,
        *,
        application: str,
        info: IndexInfo,
        index: SearchIndex,
        keeper: ProgressKeeper,
        progress: Progress,
        writer: LogWriter,
        reader: LogReader,
        limit: DeadLetterLimit,
        clock: Clock,
    ) -> None:
        self.progress = progress
        self._application = application
        self._info = info
        self._index = index
        self._keeper = keeper
        self._writer = writer
        self._limit = limit
        self._clock = clock
        self._complete = Completeness(progress)
        self._group = dead_group(application, progress.topic)
        self._resolved = topics.resolved(progress.topic)
        self._covered: dict[tuple[str, int], int] = {
            (topic, p): offset
            for topic in (progress.topic, self._resolved)
            for p, offset in _committed(reader, self._group, topic).items()
        }

    def settle(
        self, outcome: TaskOutcome, ends: Mapping[tuple[str, int], int], topic_ids: Mapping[str, str]
    ) -> Progress:
        """Steps 2 and 3. Raises `Fenced`, `Transient`, or `Terminal` when the index or the deploy is bad."""
        if outcome.counts["waiting"] or outcome.fault:
            raise Terminal("batch is not settled", topic=self.progress.topic, reason=outcome.reason)
        refused = self._complete.on_records(outcome.resolved)
        aside = [*outcome.dead, *(SetAside(record, str(error)) for record, error in refused)]
        letters = self._letters(aside, outcome.counts["read"])
        self._require_same_index()
        self._set_aside(letters, ends)
        acked = {p: offset for (topic, p), offset in ends.items() if topic == self.progress.topic}
        read = {p: offset for (topic, p), offset in ends.items() if topic == self._resolved}
        moved = replace(
            advanced(self.progress, acked, read),
            topic_ids={**self.progress.topic_ids, **topic_ids},
            epoch=max(self.progress.epoch, outcome.epoch),
        )
        moved = self._complete.apply(moved)
        if moved != self.progress:
            self._keeper.save(moved)
            self.progress = moved
        return moved

    def _letters(self, aside: list[SetAside], read: int) -> list[DeadLetter]:
        """The letters in the order of the log; raises `Terminal` when they are too many.

        Tasks report what they set aside, not in which places: records that passed count as spread evenly.
        """
        now_us = self._clock.now_us()
        passed = max(0, read - len(aside))
        between, rest = divmod(passed, len(aside) + 1)
        self._limit.passed(between + rest)
        letters = []
        for one in sorted(aside, key=lambda a: (a.record.topic, a.record.partition, a.record.offset)):
            letter = DeadLetter(one.record, self._application, one.reason, now_us)
            self._limit.set_aside(letter)
            self._limit.passed(between)
            letters.append(letter)
        return letters

    def _set_aside(self, letters: list[DeadLetter], ends: Mapping[tuple[str, int], int]) -> None:
        new = [x for x in letters if x.record.offset >= self._covered.get((x.record.topic, x.record.partition), 0)]
        if not new:
            return
        # Letters of the resolved topic go with those of the topic that it speaks of.
        dead = topics.dead(self.progress.topic, self._application)
        self._writer.begin()
        try:
            for letter in new:
                logger.warning("set aside %s: %s", letter.record.at, letter.reason)
                self._writer.append(dead, letter.key, letter.value, headers=letter.headers, partition=0)
            self._writer.commit(self._group, ends)
        except Exception:
            self._writer.abort()
            raise
        self._covered.update(ends)

    def _require_same_index(self) -> None:
        found = self._index.describe(self._info.name)
        if found is None or found.uuid != self._info.uuid:
            alias = self._info.name.rpartition("-v")[0]
            raise Terminal(
                "index was lost or made anew while it was written",
                index=self._info.name,
                fix=f"Run `lyrebird index create {alias}`; the next start reads the topic from its beginning.",
            )


def _committed(reader: LogReader, group: str, topic: str) -> dict[int, int]:
    try:
        return reader.committed(group, topic)
    except Terminal:
        # No such topic yet: nothing of it was set aside.
        return {}
