"""Dead letters of an application that writes indexes, each once (`log.publishing.letters`).

What nobody can read is kept once for all generations of the index; what one generation refuses is kept for that
generation, as another may take it. An index goes by its uuid there: one that was made anew under an old name refuses
what it refuses itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from include.clock import Clock
from include.index.outcome import SetAsideRecord
from include.index.server.port import IndexInfo
from include.log import topics
from include.log.ports import LogReader, LogWriter
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from include.log.publishing.letters import DeadLetterWriter, letters_within

__all__ = ["DeadLetters", "dead_group"]

_NO_IDS: Final[Mapping[str, str]] = {}


def dead_group(application: str, index: IndexInfo | None = None, part: str = "") -> str:
    """Group that offsets are committed for with letters that `index` refused, or that nobody can read (None).

    The latter is the writer's transactional id, too. `part`: which index it is, where the application writes several:
    each has a writer.
    """
    named = part if index is None else f"{index.name}.{index.uuid}"
    return ".".join(filter(None, (application, named, "dead")))


class DeadLetters:
    """The one writer of an application's dead letters.

    Args:
        application: its name.
        limits: topic → limit that stops a stage which sets too much aside.
        writer: writes the letters, under the transactional id that `dead_group` names.
        reader: tells which letters are written already.
        clock: says when a record was set aside.
        part: as of `dead_group`.
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
        self._letters = DeadLetterWriter(writer, reader)
        self._clock = clock

    def settle(
        self,
        index: IndexInfo,
        aside: Mapping[str, list[SetAsideRecord]],
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
            said = [(one.record, one.reason) for one in of]
            found = letters_within(
                limit, said, len(said), read.get(topic, 0), self._application, self._clock.now_us(), topic_ids
            )
            for one, letter in zip(of, found, strict=True):
                letters[one.refused].append((topics.dead(topic, self._application), letter))
        self._letters.write(dead_group(self._application, part=self._part), letters[False], ends)
        self._letters.write(dead_group(self._application, index), letters[True], ends)
