"""What a person must know of a job while it runs: who holds its watermark back, late elements, wrong clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from include.clock import Clock, iso
from include.eventtime.algorithm.watermark import NEVER, Place
from include.eventtime.config.definition import JobEntry
from include.log import topics
from include.metrics.incidents import Keeper
from include.metrics.stream_incidents import StreamIncidents

__all__ = ["JobIncidents"]

_LEAST: Final = 1_000


class JobIncidents:
    """The open incidents of one job; `after_batch` once a batch."""

    def __init__(self, job: str, entry: JobEntry, keeper: Keeper, clock: Clock) -> None:
        self._job, self._entry = job, entry
        self._product = ", ".join(output.topic for output in entry.outputs.values())
        self._stream = StreamIncidents(job, self._product, 0, f"lyrebird eventtime status {job}", keeper, clock)
        self._read = self._late = 0

    def after_batch(self, counts: Mapping[str, int], lows: Mapping[Place, int]) -> None:
        """Open, keep up or end what the batch tells of; `counts` as `JobRunner.run` gives them."""
        for source in self._entry.sources:
            self._stream.refused(
                source.topic,
                counts.get(f"refused {source.topic}", 0),
                topics.dead(source.topic, self._entry.application),
                f"lyrebird eventtime status {self._job}",
            )
        self._stream.set_aside(
            "calls",
            counts.get("failed", 0),
            f"calls of {self._job} raised: what they had to do was set aside with the reason, an element in the "
            f"dead-letter topic of its source, a timer in that of {self._product}",
            f"lyrebird eventtime status {self._job}",
        )
        self._held(lows)
        self._lateness(counts.get("read", 0), counts.get("late", 0))
        self._stream.save()

    def open(self) -> list[dict[str, Any]]:
        """As progress.json has them."""
        return self._stream.open()

    def _held(self, lows: Mapping[Place, int]) -> None:
        """One partition is far behind all others: nothing is complete beyond its watermark."""
        ledger, key = self._stream.ledger, f"held:{self._job}"
        slowest = min(lows, key=lambda place: (lows[place], place), default=None)
        if slowest is None:
            return
        ahead_us = max(lows.values()) - max(lows[slowest], NEVER)
        if ahead_us <= self._entry.held_alarm_s * 1_000_000:
            ledger.end(key)
        elif ledger.find(key) is None:
            topic, partition = slowest
            since = "it has brought nothing yet" if lows[slowest] == NEVER else f"it stands at {iso(lows[slowest])}"
            ledger.note(
                key,
                "held",
                self._job,
                f"partition {partition} of {topic} holds the watermark of {self._job} back: {since}, another is at "
                f"{iso(max(lows.values()))}; what lies between is buffered",
                f"lyrebird eventtime status {self._job}",
            )

    def _lateness(self, read: int, late: int) -> None:
        """Too large a part of the last thousand records or more came too late."""
        ledger, key = self._stream.ledger, f"late:{self._job}"
        self._read, self._late = self._read + read, self._late + late
        if self._read < _LEAST:
            return
        share, self._read, self._late = self._late / self._read, 0, 0
        if share <= self._entry.late_alarm:
            ledger.end(key)
        elif ledger.find(key) is None:
            ledger.note(
                key,
                "late",
                self._job,
                f"{share:.1%} of the elements of {self._job} come too late, more than late_alarm: "
                f"{self._entry.late_alarm:.1%}; they are in the topics that end in .late",
                f"lyrebird eventtime status {self._job}",
            )
