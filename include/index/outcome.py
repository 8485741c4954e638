"""The outcome of a share of a batch, one task's or all together: what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from include.errors import LyrebirdError
from include.log.ports import Record

__all__ = ["SETTLED", "OutcomeCounts", "SetAsideRecord", "TaskOutcome"]

SETTLED: Final = ("indexed", "deleted", "stale", "folded", "filtered", "dead")
"""What can have become of a record for good."""
OutcomeCounts = dict[tuple[str, int], dict[str, int]]
"""(topic, partition) -> of how many records it was read or became which."""


@dataclass(frozen=True, slots=True)
class SetAsideRecord:
    """A record that cannot be indexed, and why: in words, or the server's answer as JSON.

    `refused`: by this index, where another might take it; else nobody can read it.
    """

    record: Record
    reason: str
    refused: bool = False


@dataclass
class TaskOutcome:
    """`counts` by partition: read = indexed + deleted + stale + folded + filtered + dead, unless `waiting`.

    `others` are records of topics that are not indexed themselves (resolved, control), unread. `epochs` are the
    greatest of the versions so far, for each topic and partition. A share that is `waiting` for a server is to be
    worked off again, for `reason`; one with a `fault` stops the stage.
    """

    counts: OutcomeCounts = field(default_factory=dict)
    dead: list[SetAsideRecord] = field(default_factory=list)
    others: list[Record] = field(default_factory=list)
    epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    requests: int = 0
    retries: int = 0
    waiting: bool = False
    reason: str = ""
    fault: LyrebirdError | None = None

    def of(self, topic: str, partition: int) -> dict[str, int]:
        """The counts of one partition, to be counted up."""
        found = self.counts.get((topic, partition))
        if found is None:
            found = self.counts[topic, partition] = dict.fromkeys(("read", *SETTLED), 0)
        return found

    def total(self, name: str) -> int:
        """Over all partitions."""
        return sum(of[name] for of in self.counts.values())

    def totals(self) -> dict[str, int]:
        """Everything that is counted, over all partitions."""
        named: dict[str, int] = {name: self.total(name) for name in ("read", *SETTLED)}
        return {**named, "requests": self.requests, "retries": self.retries}

    def of_topic(self, topic: str) -> Mapping[int, Mapping[str, int]]:
        """The counts of one topic by partition."""
        return {p: of for (name, p), of in self.counts.items() if name == topic}

    def add(self, other: TaskOutcome) -> None:
        """Take in what became of another share."""
        for at, counts in other.counts.items():
            mine = self.of(*at)
            for name, count in counts.items():
                mine[name] += count
        self.dead += other.dead
        self.others += other.others
        for place, epoch in other.epochs.items():
            self.epochs[place] = max(self.epochs.get(place, 0), epoch)
        self.requests += other.requests
        self.retries += other.retries
        self.waiting = self.waiting or other.waiting
        self.reason = self.reason or other.reason
        self.fault = self.fault or other.fault
