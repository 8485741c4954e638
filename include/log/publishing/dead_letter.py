"""Dead letters: records that could not be understood, set aside whole, and the limits that stop a stage instead.

A bad deploy must stop a stage, not drain its topic into dead letters: hence `DeadLetterLimit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from include.errors import LyrebirdError, Terminal
from include.log import topics
from include.log.ports import Headers, Record

__all__ = ["PREFIX", "DeadLetter", "DeadLetterLimit"]

PREFIX = "dead."
_LONGEST_REASON = 2000


@dataclass(frozen=True)
class DeadLetter:
    """A record that `application` sets aside at `at_us`, and why.

    It goes to `topics.dead(topic, application)` with its own key, value and headers untouched; headers named
    `dead.…` say where it was and what was wrong. Written in the transaction of the batch that read the record.
    `topic_id` (empty: not known) tells a topic from one that was made anew, whose coordinates mean other records.
    """

    record: Record
    application: str
    reason: str
    at_us: int
    topic_id: str = ""

    @classmethod
    def of(cls, record: Record, application: str, error: LyrebirdError, at_us: int) -> DeadLetter:
        """The letter for an error; its reason is the error's one line."""
        return cls(record, application, f"{type(error).__name__}: {error}", at_us)

    @property
    def topic(self) -> str:
        """Where it goes."""
        return topics.dead(self.record.topic, self.application)

    @property
    def key(self) -> bytes | None:
        """The record's own."""
        return self.record.key

    @property
    def value(self) -> bytes | None:
        """The record's own bytes."""
        return self.record.value

    @property
    def headers(self) -> Headers:
        """The record's own, then its coordinates and the reason (at most 2,000 characters)."""
        said = {
            "application": self.application,
            "topic": self.record.topic,
            "partition": str(self.record.partition),
            "offset": str(self.record.offset),
            "timestamp_ms": str(self.record.timestamp_ms),
            "reason": self.reason[:_LONGEST_REASON],
            "at_us": str(self.at_us),
            **({"topic_id": self.topic_id} if self.topic_id else {}),
        }
        return (*self.record.headers, *((PREFIX + name, text.encode()) for name, text in said.items()))

    @classmethod
    def parse(cls, letter: Record) -> DeadLetter:
        """The letter in a record of a dead-letter topic; raises `Terminal` for a record that is none."""
        said = {name[len(PREFIX) :]: value for name, value in letter.headers if name.startswith(PREFIX) and value}
        own = tuple((name, value) for name, value in letter.headers if not name.startswith(PREFIX))
        try:
            text = {name: value.decode() for name, value in said.items()}
            record = Record(
                text["topic"],
                int(text["partition"]),
                int(text["offset"]),
                letter.key,
                letter.value,
                own,
                int(text["timestamp_ms"]),
            )
            return cls(record, text["application"], text["reason"], int(text["at_us"]), text.get("topic_id", ""))
        except (KeyError, ValueError) as error:
            raise Terminal("not a dead letter", at=str(letter.at), reason=repr(error)) from error


class DeadLetterLimit:
    """Counts records that passed and that were set aside, and raises `Terminal` when a stage should stop.

    It stops at `run` records set aside in a row, and, once `run` records were seen at all, when more than `ratio`
    of them were set aside. Counts begin anew with each process.
    """

    def __init__(self, ratio: float = 0.1, run: int = 100) -> None:
        self.ratio = ratio
        self.run = run
        self.seen = 0
        self.dead = 0
        self._in_a_row = 0

    def passed(self, count: int = 1) -> None:
        """`count` records were understood."""
        if count > 0:
            self.seen += count
            self._in_a_row = 0

    def batch(self, letters: Sequence[DeadLetter], good: int) -> None:
        """A batch of which these were set aside and `good` were understood, as if they were spread evenly among these.

        Who works on a batch in parts does not know their order, and a part may have nothing but bad ones.
        """
        share = good // max(1, len(letters))
        for letter in letters:
            self.passed(share)
            self.set_aside(letter)
        self.passed(good - share * len(letters))

    def set_aside(self, letter: DeadLetter) -> None:
        """One was not; raises `Terminal` when that is one too many, before the letter is written."""
        self.seen += 1
        self.dead += 1
        self._in_a_row += 1
        if self._in_a_row >= self.run or (self.seen >= self.run and self.dead > self.ratio * self.seen):
            raise Terminal(
                "too many records cannot be understood",
                topic=letter.record.topic,
                partition=letter.record.partition,
                offset=letter.record.offset,
                in_a_row=self._in_a_row,
                dead=self.dead,
                seen=self.seen,
                reason=letter.reason,
                fix="Mend the writer or the reader, or raise the limit; nothing of this batch was committed.",
            )
