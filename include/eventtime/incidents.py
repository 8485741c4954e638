"""Opens and ends a job's incidents: a watermark that is held back, late elements, calls that raise, refused records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.clock import Clock, iso
from include.eventtime.algorithm.watermark import NEVER, TopicPartition
from include.eventtime.config.definition import JobEntry
from include.incidents.kind import IncidentKind
from include.incidents.stream import StreamIncidents, refused_kind
from include.log import topics
from include.metrics.progress import RunFolder

__all__ = ["CALLS", "HELD", "LATE", "REFUSED", "JobIncidents"]

_STAGE, _PAGE = "event time", "event-time.md#what-a-job-writes-beside-its-outputs"
REFUSED: Final = refused_kind(_STAGE, _PAGE, "Look at them: `lyrebird eventtime status {name}`.")
CALLS: Final = IncidentKind("refused", _STAGE, "error", _PAGE,
    opens="calls of a job raise", ends="none has raised for an hour",
    text="{count:,} calls of {name} raised: what they had to do was set aside with the reason, an element in the "
         "dead-letter topic of its source, a timer in that of {product}",
    fix="`lyrebird eventtime status {name}`; the reason is in the dead-letter topic. Mend the job.")  # fmt: skip
HELD: Final = IncidentKind("held", _STAGE, "warning", "event-time.md#the-watermark-and-why-a-replay-equals",
    opens="one partition is more than `held_alarm_s` behind another, so nothing after it is complete",
    ends="it has caught up",
    text="partition {partition} of {topic} holds the watermark of {name} back: {since}, another is at {ahead}; what "
         "lies between is buffered",
    fix="Find out why its producer is silent: `lyrebird eventtime status {name}`.")  # fmt: skip
LATE: Final = IncidentKind("late", _STAGE, "error", "event-time.md#the-watermark-and-why-a-replay-equals",
    opens="of the last thousand elements or more a larger part than `late_alarm` came after their time had passed",
    ends="of the next thousand a smaller part did",
    text="{share:.1%} of the elements of {name} come too late, more than late_alarm: {most:.1%}; they are in the "
         "topics that end in .late",
    fix="`lyrebird eventtime status {name}`; look at the senders, or raise `disorder_s`.")  # fmt: skip
_LEAST: Final = 1_000


class JobIncidents(StreamIncidents):
    """The open incidents of one job; `after_batch` once a batch."""

    def __init__(self, job: str, entry: JobEntry, folder: RunFolder, clock: Clock) -> None:
        super().__init__(job, ", ".join(output.topic for output in entry.outputs.values()), folder, clock)
        self._entry = entry
        self._read = self._late = 0

    def after_batch(self, counts: Mapping[str, int], lows: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
        """Open, keep up or end what the batch tells of; `counts` as `JobRunner.run` gives them."""
        for source in self._entry.sources:
            dead = topics.dead(source.topic, self._entry.application)
            self.refused(REFUSED, counts.get(f"refused {source.topic}", 0), source.topic, dead)
        self.set_aside(CALLS, counts.get("failed", 0), "calls")
        if lows:
            self._held(lows)
        self._lateness(counts.get("read", 0), counts.get("late", 0))
        return self.open()

    def _held(self, lows: Mapping[TopicPartition, int]) -> None:
        """One partition is far behind all others: nothing is complete beyond its watermark."""
        slowest, most_us = min(lows, key=lambda place: (lows[place], place)), max(lows.values())
        if most_us - max(lows[slowest], NEVER) <= self._entry.held_alarm_s * 1_000_000:
            self.end(HELD, self._name)
        else:
            since = "it has brought nothing yet" if lows[slowest] == NEVER else f"it stands at {iso(lows[slowest])}"
            self._hold(HELD, True, topic=slowest[0], partition=slowest[1], since=since, ahead=iso(most_us))

    def _lateness(self, read: int, late: int) -> None:
        """Too large a part of the last thousand records or more came too late."""
        self._read, self._late = self._read + read, self._late + late
        if self._read >= _LEAST:
            share, self._read, self._late = self._late / self._read, 0, 0
            self._hold(LATE, share > self._entry.late_alarm, share=share, most=self._entry.late_alarm)
