"""Writing dead letters, each once, however often its batch is run again.

Letters are written in one Kafka transaction with the end offsets of their batch, under a group of their own. What lies
below offsets that were committed so is not written again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from include.errors import Terminal
from include.log.ports import LogReader, LogWriter, Record
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit

__all__ = ["DeadLetterWriter", "letters_within"]

logger = logging.getLogger(__name__)

_PARTITION: Final = 0
_NO_IDS: Final[Mapping[str, str]] = {}


def letters_within(
    limit: DeadLetterLimit,
    aside: Iterable[tuple[Record, str]],
    count: int,
    read: int,
    application: str,
    now_us: int,
    topic_ids: Mapping[str, str] = _NO_IDS,
) -> list[DeadLetter]:
    """Makes letters of records that were set aside, unless they are too many.

    Tasks report what they set aside, not in which places: records that passed count as spread evenly.

    Args:
        limit: counts what passes and what is set aside.
        aside: each record with its reason; may be read as it goes: after the error no more is asked for.
        count: number of records in `aside`.
        read: number of all records that were read, those in `aside` too.
        application: the one that sets them aside.
        now_us: the present, in epoch microseconds.
        topic_ids: topic → its id; "" is taken for topics that are not in it.

    Raises:
        Terminal: too many records cannot be understood.
    """
    passed = max(0, read - count)
    between, rest = divmod(passed, count + 1)
    limit.passed(between + rest)
    letters = []
    for record, reason in aside:
        letter = DeadLetter(record, application, reason, now_us, topic_ids.get(record.topic, ""))
        limit.set_aside(letter)
        limit.passed(between)
        letters.append(letter)
    return letters


class DeadLetterWriter:
    """The one writer of an application's dead letters."""

    def __init__(self, writer: LogWriter, reader: LogReader) -> None:
        self._writer, self._reader = writer, reader
        self._covered: dict[str, dict[tuple[str, int], int]] = {}

    def write(self, group: str, letters: Iterable[tuple[str, DeadLetter]], ends: Mapping[tuple[str, int], int]) -> None:
        """Write those of these letters, by the topics that they go to, that `group` has not been written for.

        `ends`: of the batch. May be called again with the same batch; raises `Transient` and `Fenced`.
        """
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
