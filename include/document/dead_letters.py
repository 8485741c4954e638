"""Sets aside, in a batch's own transaction, records that cannot be read and documents that cannot be made.

A document that lacks a row is a state of the data, not a fault of anybody: one deleted partner can stand behind
any number of orders. So such documents have a limit of their own, which looks at whole batches.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from include.clock import Clock
from include.document.definition import DocumentDefinition
from include.document.overflow_requests import key_text
from include.document.reading.lookup import MissingRow
from include.document.signals import Signals
from include.errors import Terminal
from include.log.ports import Record
from include.log.publishing.dead_letter import DeadLetter, DeadLetterLimit
from include.log.publishing.publisher import Publisher
from include.record import version as versions

__all__ = ["AssemblerLetters", "FailedDocument", "LookupLimit"]


@dataclass(frozen=True)
class FailedDocument:
    """A document that cannot be made: its key (as fields, as bytes), its version, rows that are missing or a reason."""

    named: Mapping[str, Any]
    key: bytes
    version: int
    why: Sequence[MissingRow] | str


_BATCHES: Final = 3
_ALMOST_ALL: Final = 0.99


@dataclass
class LookupLimit:
    """Stops a stage whose look-ups find (almost) nothing, as when `documents` names a wrong column.

    That is when in three batches one after the other 99 % of the documents lack a row, `least` documents in all, and
    not all of them the same row. Counts begin anew with each process.
    """

    least: int
    batches: int = 0
    documents: int = 0
    rows: frozenset[str] = frozenset()

    def batch(self, made: int, lacking: Sequence[MissingRow]) -> None:
        """A batch made so many documents, and these rows were missing, one for each document that it could not make.

        Raises `Terminal`, before the batch is committed.
        """
        if len(lacking) < _ALMOST_ALL * (made + len(lacking)):
            self.batches, self.documents, self.rows = 0, 0, frozenset()
            return
        if not lacking:
            return
        self.batches += 1
        self.documents += len(lacking)
        # Two are enough to tell that they differ.
        for each in lacking:
            if len(self.rows) < 2:
                self.rows |= {f"{each.path} {sorted(each.where.items())!r}"}
        if self.batches >= _BATCHES and self.documents >= self.least and len(self.rows) > 1:
            raise Terminal(
                "almost all documents lack a row that they need",
                batches=self.batches,
                documents=self.documents,
                path=lacking[0].path,
                table=lacking[0].table,
                where=dict(lacking[0].where),
                fix="Mend the look-up in `documents`, or declare it `required: false`; nothing of this batch was"
                " committed.",
            )


class AssemblerLetters:
    """Writes dead letters, and counts them against the limits once, however often a batch is tried.

    `begin` a try, `end` it when its transaction is committed.
    """

    def __init__(self, definition: DocumentDefinition, publisher: Publisher, clock: Clock) -> None:
        self._definition = definition
        self._publisher = publisher
        self._clock = clock
        self.limit = self._tried = DeadLetterLimit(definition.dead_ratio, definition.dead_run)
        self.lookups = self._lookups_tried = LookupLimit(definition.dead_run)
        self._made = 0
        self._lacking: list[MissingRow] = []

    def begin(self) -> None:
        """Forget what a try that came to nothing has set aside."""
        self._tried, self._lookups_tried = copy.copy(self.limit), copy.copy(self.lookups)
        self._made, self._lacking = 0, []

    def written(self) -> None:
        """All documents of the try are written: see whether their look-ups found anything."""
        self._lookups_tried.batch(self._made, self._lacking)

    def end(self) -> tuple[int, int]:
        """Counts this try's letters against the limits; gives how many are unreadable, and how many lack rows."""
        before, self.limit, self.lookups = self.limit, self._tried, self._lookups_tried
        return self.limit.dead - before.dead, len(self._lacking)

    def records(self, signals: Signals) -> None:
        """The batch's unreadable records."""
        letters = [self._letter(each.record, each.reason) for each in signals.set_aside]
        self._tried.batch(letters, signals.counts["read"] - len(letters))
        for letter in letters:
            self._publisher.set_aside(letter)

    def documents(self, wrong: Sequence[FailedDocument], written: int) -> None:
        """Documents beside `written` good ones. They have no coordinates, as they were never in the log: -1."""
        share = written // max(1, sum(isinstance(document.why, str) for document in wrong))
        self._made += written
        for document in wrong:
            said: dict[str, Any] = {"key": document.named, "version": document.version}
            counted = isinstance(document.why, str)
            if isinstance(document.why, str):
                self._tried.passed(share)
                reason = said["error"] = document.why
            else:
                self._lacking.append(document.why[0])
                reason = self._reason(document.named, document.why)
                said["missing"] = [{"path": m.path, "table": m.table, "where": dict(m.where)} for m in document.why]
            headers = (versions.to_header(document.version),)
            value = orjson.dumps(said, default=str)
            self._write(Record(self._publisher.topic, -1, -1, document.key, value, headers, 0), reason, counted=counted)

    def _letter(self, record: Record, reason: str) -> DeadLetter:
        return DeadLetter(record, self._publisher.application, reason, self._clock.now_us())

    def _write(self, record: Record, reason: str, *, counted: bool = True) -> None:
        letter = self._letter(record, reason)
        if counted:
            self._tried.set_aside(letter)
        self._publisher.set_aside(letter)

    def _reason(self, named: Mapping[str, Any], missing: Sequence[MissingRow]) -> str:
        first = missing[0]
        where = ", ".join(f"{name}={value!r}" for name, value in first.where.items())
        reason = f"{first.path}: no row of {first.table} where {where}"
        if first.table in self._definition.signals:
            return f"{reason}; the document comes with that row"
        # The key itself: a long one's id is a hash, from which nobody finds it.
        key = shlex.quote(key_text(tuple(named.values())))
        again = f"lyrebird documents rebuild --topic {self._publisher.topic} --key {key}"
        return f"{reason}; once it is there, run `{again}`"
