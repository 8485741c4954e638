"""The report of one group's work since its driver began: counts, losses, what fails now."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from include.errors import LyrebirdError
from include.lake.reading.group_log import TopicIdPartition
from include.lake.writing.driver import GroupWatcher
from include.lake.writing.planner import GroupPlanner, TopicRecreated
from include.lake.writing.task import Outcome

__all__ = ["GroupReport"]

LOGGER: Final = logging.getLogger("lyrebird.lake")


@dataclass
class GroupReport(GroupWatcher):
    """The report of one group since its driver began; a `GroupWatcher`."""

    name: str
    cuts: int = 0
    records: int = 0
    bytes: int = 0
    filtered: int = 0
    quarantined: int = 0
    offset_failures: int = 0
    unknown_ids: int = 0
    lost: list[str] = field(default_factory=list)
    away: str = ""
    # The last warning about each partition: an error that comes again is not logged again.
    _warned: dict[str, str] = field(default_factory=dict)

    @override
    def on_outcome(self, outcome: Outcome) -> None:
        tp = outcome.task.range.tp
        partition = f"{tp.topic}/{tp.partition}"
        self.unknown_ids += outcome.unknown_ids
        for commit in outcome.commits:
            self.cuts += 1
            self.records += commit.n_records
            self.bytes += sum(file.bytes for file in commit.files)
            self.filtered += commit.filtered
            self.quarantined += commit.quarantined
            for gap in commit.gaps:
                if gap.kind == "lost":
                    self._lose(partition, gap.first, gap.until, "retention was faster")
        if outcome.error is None:
            self._warned.pop(partition, None)
        else:
            self._warn(partition, outcome.error)

    @override
    def on_lost(self, remade: TopicRecreated) -> None:
        place = f"{remade.tp.topic}/{remade.tp.partition}"
        self._warned.pop(place, None)
        self._lose(place, remade.head, remade.end, "the topic was deleted or made anew")

    @override
    def on_gone(self, tp: TopicIdPartition, first: int, until: int) -> None:
        why = "their commits are gone, or the log was truncated, and a newer revision stores them again"
        self._lose(f"{tp.topic}/{tp.partition}", first, until, why)

    @override
    def on_refused(self, tp: TopicIdPartition, error: LyrebirdError) -> None:
        self._warn(f"{tp.topic}/{tp.partition}", error)

    @override
    def on_away(self, error: LyrebirdError) -> None:
        if self.away != str(error):
            LOGGER.warning("%s waits: %s", self.name, error)
        self.away = str(error)

    @override
    def on_back(self) -> None:
        LOGGER.warning("%s goes on", self.name)
        self.away = ""

    @property
    def losses(self) -> int:
        """Ranges that were gone before they were stored, or whose commits were."""
        return len(self.lost)

    def __str__(self) -> str:
        text = f"{self.name}: {self.cuts} cuts with {self.records} records in {self.bytes} bytes"
        told = ((self.filtered, "filtered"), (self.quarantined, "set aside"), (self.losses, "ranges lost"))
        return ", ".join([text, *(f"{word}: {count}" for count, word in told if count)])

    def to_json(self, planner: GroupPlanner) -> dict[str, Any]:
        """Plain values for progress.json."""
        return {
            "cuts": self.cuts,
            "records": self.records,
            "bytes": self.bytes,
            "filtered": self.filtered,
            "quarantined": self.quarantined,
            "offset_failures": self.offset_failures,
            "unknown_ids": self.unknown_ids,
            "waiting": sum(planner.waiting().values()),
            "lost": list(self.lost),
            "failing": {f"{tp.topic}/{tp.partition}": why for tp, why in planner.failing.items()},
            "away": self.away,
        }

    def _warn(self, partition: str, error: LyrebirdError) -> None:
        if self._warned.get(partition) != str(error):
            self._warned[partition] = str(error)
            LOGGER.warning("%s: %s", self.name, error)

    def _lose(self, place: str, first: int, until: int, why: str) -> None:
        self.lost.append(f"{place}: offsets {first} to {until - 1}: {why}")
        LOGGER.error("%s has lost records: %s", self.name, self.lost[-1])
