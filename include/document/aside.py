"""What a batch sets aside, in its own transaction: records that cannot be read, documents that cannot be made."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from include.clock import Clock
from include.document.definition import DocumentDefinition
from include.document.lookup import Missing
from include.document.publish import Publisher
from include.document.signals import Signals
from include.document.spread import key_text
from include.log.dead_letter import DeadLetter, DeadLetterLimit
from include.log.ports import Record
from include.record import version as versions

__all__ = ["Aside", "Wrong"]


@dataclass(frozen=True)
class Wrong:
    """A document that cannot be made: its key (as fields, as bytes), its version, rows that are missing or a reason."""

    named: Mapping[str, Any]
    key: bytes
    version: int
    why: Sequence[Missing] | str


class Aside:
    """Writes dead letters, and counts them against the limits once, however often a batch is tried.

    `begin` a try, `end` it when its transaction is committed.
    """

    def __init__(self, definition: DocumentDefinition, publisher: Publisher, clock: Clock) -> None:
        self._definition = definition
        self._publisher = publisher
        self._clock = clock
        self.limit = self._tried = DeadLetterLimit(definition.dead_ratio, definition.dead_run)

    def begin(self) -> None:
        """Forget what a try that came to nothing has set aside."""
        self._tried = copy.copy(self.limit)

    def end(self) -> int:
        """How many this try has set aside; they count from now on."""
        before, self.limit = self.limit, self._tried
        return self.limit.dead - before.dead

    def records(self, signals: Signals) -> None:
        """The batch's unreadable records. They are spread evenly over the readable ones for the limit's `run`."""
        good = signals.counts["read"] - len(signals.set_aside)
        share = good // max(1, len(signals.set_aside))
        for each in signals.set_aside:
            self._tried.passed(share)
            self._write(each.record, each.reason)
        self._tried.passed(good - share * len(signals.set_aside))

    def documents(self, wrong: Sequence[Wrong], written: int) -> None:
        """Documents beside `written` good ones. They have no coordinates, as they were never in the log: -1."""
        share = written // max(1, len(wrong))
        for each in wrong:
            self._tried.passed(share)
            said: dict[str, Any] = {"key": each.named, "version": each.version}
            if isinstance(each.why, str):
                reason = said["error"] = each.why
            else:
                reason = self._reason(each.named, each.why)
                said["missing"] = [{"path": m.path, "table": m.table, "where": dict(m.where)} for m in each.why]
            headers = (versions.to_header(each.version),)
            value = orjson.dumps(said, default=str)
            self._write(Record(self._publisher.topic, -1, -1, each.key, value, headers, 0), reason)

    def _write(self, record: Record, reason: str) -> None:
        letter = DeadLetter(record, self._publisher.application, reason, self._clock.now_us())
        self._tried.set_aside(letter)
        self._publisher.set_aside(letter)

    def _reason(self, named: Mapping[str, Any], missing: Sequence[Missing]) -> str:
        first = missing[0]
        where = ", ".join(f"{name}={value!r}" for name, value in first.where.items())
        reason = f"{first.path}: no row of {first.table} where {where}"
        if first.table in self._definition.signals:
            return f"{reason}; the document comes with that row"
        # The key itself: a long one's id is a hash, from which nobody finds it.
        key = shlex.quote(key_text(tuple(named.values())))
        again = f"lyrebird documents rebuild --topic {self._publisher.topic} --key {key}"
        return f"{reason}; once it is there, run `{again}`"
