"""Mends what the audit of a table found: the running capture reads these rows again, at its own place in the stream.

Versions decide, so writes may go on. A key that the database does not have any more is deleted from the copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from include.audit.merkle.report import RowFinding
from include.clock import Clock
from include.errors import Terminal
from include.log.requests.asking import ask_and_wait
from include.log.requests.records import Request
from include.settings.connections import Kafka
from include.source.snapshot.wanted_keys import MOST_KEYS, key_text

__all__ = ["Repair", "RepairedRows", "requests_of"]

_MOST_BY_KEY: Final = 20 * MOST_KEYS
"""Rows that are read one by one; a table with more of them is read whole."""
_DONE_S: Final = 3600.0
_TAKEN_S: Final = 60.0


@dataclass(frozen=True)
class RepairedRows:
    """What was done: requests, by their ids, and how many rows capture read; `whole`: the table was read anew."""

    requests: Sequence[str] = ()
    rows: int = 0
    whole: bool = False
    found: dict[str, int] = field(default_factory=dict)
    """What was wrong before, by kind."""
    error: str = ""
    """Why nothing, or not all, was done."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        said = {"requests": list(self.requests), "rows": self.rows, "whole": self.whole, "found": dict(self.found)}
        return {**said, "error": self.error} if self.error else said


def requests_of(
    id_: str, table: str, found: Sequence[RowFinding], *, whole: bool, now_us: int, by: str
) -> tuple[list[Request], bool]:
    """What to ask capture for, and whether that is the whole table.

    Args:
        id_: what the requests' ids begin with; the same rows of it make the same ids, so that each is carried out once.
        table: `database.table`.
        found: rows that are wrong.
        whole: there are more of them.
        now_us: when it is asked.
        by: who asks.
    """
    if whole or len(found) > _MOST_BY_KEY or any(not each.named for each in found):
        return [Request(f"{id_}.whole.{_digest(sorted(map(str, found)))}", "reread", by, now_us, (table,))], True
    keys = [key_text({name: str(value) for name, value in each.key.items()}) for each in found]
    shares = [tuple(sorted(keys)[at : at + MOST_KEYS]) for at in range(0, len(keys), MOST_KEYS)]
    return [Request(f"{id_}.{_digest(share)}", "reread", by, now_us, (table,), share) for share in shares], False


def _digest(words: Sequence[str]) -> str:
    """Of what is asked for: a later try of the same run may find other rows, which is another request."""
    return hashlib.sha256(repr(tuple(words)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Repair:
    """Repairs of one run of an audit; `id`: of the run, the same when it is tried again."""

    kafka: Kafka
    source: str
    clock: Clock
    id: str

    def mend(self, table: str, found: Sequence[RowFinding], *, whole: bool, counts: dict[str, int]) -> RepairedRows:
        """Ask the running capture for what is wrong, and wait until it is in the topic.

        Raises:
            Transient: no capture answers, or it takes longer than an hour; asked again it goes on.
            Terminal: capture refuses.
        """
        asked, entire = requests_of(
            f"{self.id}.{table}", table, found, whole=whole, now_us=self.clock.now_us(), by="lyrebird audit tables"
        )
        try:
            rows = self._done(asked)
        except Terminal:
            if entire:
                raise
            # Single rows cannot be had of every table: of such a one all.
            asked, entire = requests_of(
                f"{self.id}.{table}", table, found, whole=True, now_us=self.clock.now_us(), by="lyrebird audit tables"
            )
            rows = self._done(asked)
        return RepairedRows([request.id for request in asked], rows, entire, counts)

    def _done(self, asked: Sequence[Request]) -> int:
        rows = 0
        for request in asked:
            answer = ask_and_wait(
                self.kafka,
                f"cdc.{self.source}",
                request,
                self.clock,
                _DONE_S,
                status=f"lyrebird capture status --source {self.source}",
                taken_s=_TAKEN_S,
            )
            rows += answer.done if answer else 0
        return rows
