"""Heads of chains as committed offsets of a consumer group, so that tools which show its lag show the lake's.

For those alone: nothing of ours reads them back, and a group is no slower and no less right without them. The group
`lyrebird.lake.<group>` has no members.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from include.clock import Clock
from include.errors import LyrebirdError
from include.lake.writing.planner import GroupPlanner
from include.lake.writing.report import GroupReport

__all__ = ["GroupOffsets", "LagOffsets", "consumer_group"]

LOGGER: Final = logging.getLogger("lyrebird.lake")
_STEP_S: Final = 0.05
_CLOSE_S: Final = 2.0


class GroupOffsets(Protocol):
    """Commits offsets of one consumer group. Calls do not wait."""

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Send them, by topic and partition; one answer follows unless it raises."""

    def answers(self) -> list[LyrebirdError | None]:
        """What became of commits since the last call, in order; None: they are committed."""

    def close(self) -> None:
        """Give up the connection, and what has no answer yet."""


def consumer_group(group: str) -> str:
    """The consumer group that shows the lag of a group of the lake."""
    return f"lyrebird.lake.{group}"


class LagOffsets:
    """One group's heads. A failure is counted in its report and logged once; the next `show` tries again."""

    def __init__(self, offsets: GroupOffsets, clock: Clock) -> None:
        self._offsets, self._clock = offsets, clock
        self._told: dict[tuple[str, int], int] = {}
        self._waits = self._failed = False

    def show(self, report: GroupReport, planner: GroupPlanner) -> None:
        """Send heads that have moved, one commit at a time; never raises what Kafka does."""
        self._hear(report)
        if self._waits:
            return
        heads = {(tp.topic, tp.partition): planner.head(tp) for tp in planner.waiting()}
        moved = {place: head for place, head in heads.items() if self._told.get(place) != head}
        if not moved:
            return
        # Of topics that are gone nothing is remembered: one made anew begins at 0.
        self._told = heads
        try:
            self._offsets.commit(moved)
            self._waits = True
        except LyrebirdError as error:
            self._fail(report, error)

    def close(self, report: GroupReport, planner: GroupPlanner) -> None:
        """Send what moved last, and wait for the answer for two seconds at most."""
        until_s = self._clock.monotonic_s() + _CLOSE_S
        for _ in range(2):
            while self._waits and self._clock.monotonic_s() < until_s:
                self._clock.sleep(_STEP_S)
                self._hear(report)
            self.show(report, planner)
        self._hear(report)
        self._offsets.close()

    def _hear(self, report: GroupReport) -> None:
        for error in self._offsets.answers():
            self._waits = False
            if error is None:
                self._failed = False
            else:
                self._fail(report, error)

    def _fail(self, report: GroupReport, error: LyrebirdError) -> None:
        report.offset_failures += 1
        self._told = {}
        if not self._failed:
            LOGGER.warning(
                "%s: heads could not be committed for lag tools, which changes nothing else: %s", report.name, error
            )
        self._failed = True
