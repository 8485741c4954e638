"""Dead letters of an application: each once, however often its batch is run again.

A letter is written in one Kafka transaction with the end offsets of its batch. What lies below offsets that were
committed so is not written again. What nobody can read is kept once for all generations of the index; what one
generation refuses is kept for that generation, as another may take it. An index goes by its uuid there: one that was
made anew under an old name refuses what it refuses itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from include.clock import Clock
from include.errors import Terminal
from include.index.outcome import SetAside
from include.index.port import IndexInfo
from include.log import topics
from include.log.dead_letter import DeadLetter, DeadLetterLimit
from include.log.ports import LogReader, LogWriter

__all__ = ["DeadLetters", "dead_group"]

logger = logging.getLogger(__name__)

_PARTITION: Final = 0
_NO_IDS: Final[Mapping[str, str]] = {}


def dead_group(application: str, index: IndexInfo | None = None, part: str = "") -> str:
    """Group that offsets are committed for with letters that `index` refused, or that nobody can read (None).

    The latter is the writer's transactional id, too. `part`: which index it is, where the application writes several:
    each has a writer.
    """
    named = part if index is None else f"{index.name}.{index.uuid}"
    return ".".join(filter(None, (application, named, "dead")))


class DeadLetters:
    """The one writer of an application's dead letters; `limits` by topic stop a stage that sets too much aside.

    `part`: as of `dead_group`.
    """

    def __init__(
        self,
        *,
        application: str,
        limits: Mapping[str, DeadLetterLimit],
        writer: LogWriter,
        reader: LogReader,
        clock: Clock,
        part: str = "",
    ) -> None:
        self._application = application
        self._part = part
        self._limits = limits
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._covered: dict[str, dict[tuple[str, int], int]] = {}

    def settle(
        self,
        index: IndexInfo,
        aside: Mapping[str, list[SetAside]],
        read: Mapping[str, int],
        ends: Mapping[tuple[str, int], int],
        topic_ids: Mapping[str, str] = _NO_IDS,
    ) -> None:
        """Write the letters of a batch, by topic, that are not written yet; `read` records it had of each topic.

        May be called again with the same batch. Letters of topics beside a data topic (its resolved records) go with
        that topic's. Raises `Terminal` when they are too many, before one is written; `Transient`, `Fenced`.
        """
        letters: dict[bool, list[tuple[str, DeadLetter]]] = {False: [], True: []}
        for topic, limit in self._limits.items():
            of = sorted(aside.get(topic, ()), key=lambda a: (a.record.topic, a.record.partition, a.record.offset))
            for one, letter in zip(of, self._letters(of, read.get(topic, 0), limit, topic_ids), strict=True):
                letters[one.refused].append((topics.dead(topic, self._application), letter))
        self._write(dead_group(self._application, part=self._part), letters[False], ends)
        self._write(dead_group(self._application, index), letters[True], ends)

    def _letters(
        self, aside: list[SetAside], read: int, limit: DeadLetterLimit, ids: Mapping[str, str]
    ) -> list[DeadLetter]:
        """The letters in the order of the log; raises `Terminal` when they are too many.

        Tasks report what they set aside, not in which places: records that passed count as spread evenly.
        """
        now_us = self._clock.now_us()
        passed = max(0, read - len(aside))
        between, rest = divmod(passed, len(aside) + 1)
        limit.passed(between + rest)
        letters = []
        for one in aside:
            topic_id = ids.get(one.record.topic, "")
            letter = DeadLetter(one.record, self._application, one.reason, now_us, topic_id)
            limit.set_aside(letter)
            limit.passed(between)
            letters.append(letter)
        return letters

    def _write(
        self, group: str, letters: Iterable[tuple[str, DeadLetter]], ends: Mapping[tuple[str, int], int]
    ) -> None:
        letters = list(letters)
        if not letters:
            return
        covered = self._covered.setdefault(group, {})
        for topic in {letter.record.topic for _, letter in letters} - {topic for topic, _ in covered}:
            covered.update({(topic, p): offset for p, offset in self._committed(group, topic).items()})
        new = [
            (dead, letter)
            for dead, letter in letters
            if letter.record.offset >= covered.get((letter.record.topic, letter.record.partition), 0)
        ]
        if not new:
            return
        self._writer.begin()
        try:
            for dead, letter in new:
                logger.warning("set aside %s: %s", letter.record.at, letter.reason)
                self._writer.append(dead, letter.key, letter.value, headers=letter.headers, partition=_PARTITION)
            self._writer.commit(group, ends)
        except Exception:
            self._writer.abort()
            raise
        covered.update(ends)

    def _committed(self, group: str, topic: str) -> dict[int, int]:
        try:
            return self._reader.committed(group, topic)
        except Terminal:
            # No such topic yet: nothing of it was set aside.
            return {}
