"""Definition of a Kafka partition's state, for one life of a topic, as the driver of its group keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from include.lake.upload_policy import PartitionBacklog
from include.log.planning.survey import HiddenOffsets

__all__ = ["ArrivalTimes", "OpenTransaction", "WatchedPartition"]
_EVERY_MS: Final = 5_000
_MOST: Final = 240


@dataclass(slots=True)
class ArrivalTimes:
    """The moves of the end of a partition's log since its driver began, whatever timestamps producers give.

    Times are the driver's, in milliseconds. A time it tells may be too late by some seconds, and after hours by some
    percent of how long that has been.
    """

    _seen: list[tuple[int, int]] = field(default_factory=list)

    def note(self, end: int, now_ms: int) -> None:
        """The log ends there now."""
        if self._seen and (end <= self._seen[-1][1] or now_ms - self._seen[-1][0] < _EVERY_MS):
            return
        self._seen.append((now_ms, end))
        if len(self._seen) > _MOST:
            del self._seen[1::2]

    def since_ms(self, head: int, now_ms: int) -> int:
        """Since when the log has had an offset at `head`, as far as was seen. What is below is forgotten."""
        while self._seen and self._seen[0][1] <= head:
            del self._seen[0]
        return self._seen[0][0] if self._seen else now_ms


class OpenTransaction(NamedTuple):
    """Offsets that Kafka shows to nobody yet, and how long their transaction was seen to have no end."""

    hidden: HiddenOffsets
    stood_ms: int


@dataclass(slots=True)
class WatchedPartition:
    """Times are the driver's, in milliseconds.

    `head` is where its chain ends or, unless that is `sure`, where it ended when it was last known. `shrunk_ms`: since
    when the log has ended before it, at `shrunk_end`. `doubted`: it may be another topic's by this name, whose edges
    are none of this one's. `failing`: why the last task failed, until what is below `due_until` is stored, or for good
    (`stopped`). `ask_ms`: not before, its head is looked up again. `hidden` behind `end` since `hidden_ms`, as it was
    seen at `hidden_looked_ms`.
    """

    head: int | None = None
    sure: bool = False
    last: int | None = None
    shrunk_ms: int | None = None
    shrunk_end: int = 0
    doubted: bool = False
    begin: int = 0
    end: int = 0
    seen_ms: int | None = None
    planned_ms: int | None = None
    oldest_ms: int | None = None
    growth: ArrivalTimes = field(default_factory=ArrivalTimes)
    recent_bytes: int = 0
    recent_offsets: int = 0
    busy: bool = False
    failures: int = 0
    wait_until_ms: int = 0
    ask_ms: int = 0
    due_until: int = 0
    failing: str = ""
    stopped: bool = False
    hidden: HiddenOffsets | None = None
    hidden_ms: int = 0
    hidden_looked_ms: int = 0

    def note_hidden(self, hidden: HiddenOffsets | None, now_ms: int, since_ms: int) -> None:
        """Notes what no reader is shown now; where it begins later than before, it is another transaction's."""
        if hidden is None or self.hidden is None or hidden.stable != self.hidden.stable:
            self.hidden_ms = min(since_ms, now_ms)
        self.hidden, self.hidden_looked_ms = hidden, now_ms

    def held_up(self) -> OpenTransaction | None:
        """By a transaction without an end."""
        return OpenTransaction(self.hidden, self.hidden_looked_ms - self.hidden_ms) if self.hidden is not None else None

    def standing(self) -> PartitionBacklog:
        """The backlog that the upload policy decides by."""
        return PartitionBacklog(
            head=self.head or 0,
            end=self.end,
            recent_bytes=self.recent_bytes,
            recent_offsets=self.recent_offsets,
            oldest_ms=self.oldest_ms,
            seen_ms=self.seen_ms,
            planned_ms=self.planned_ms,
        )
