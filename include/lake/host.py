"""Keeps the drivers of an application's groups going until it is asked to stop, and tells how far they are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.lake.driver import Driver
from include.lake.planner import Remade
from include.lake.task import Outcome
from include.lake.upload_policy import Asked
from include.metrics.progress import RunFolder

__all__ = ["Host", "Report"]

LOGGER: Final = logging.getLogger("lyrebird.lake")
_STEP_S: Final = 0.05
_REPORT_EVERY_S: Final = 1.0


@dataclass
class Report:
    """What one group has to show since its driver began; a `Watcher`."""

    name: str
    cuts: int = 0
    records: int = 0
    bytes: int = 0
    filtered: int = 0
    quarantined: int = 0
    lost: list[str] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    away: str = ""

    def on_outcome(self, outcome: Outcome) -> None:
        """See `Watcher`."""
        spot = outcome.task.range.spot
        place = f"{spot.topic}/{spot.partition}"
        for commit in outcome.commits:
            self.cuts += 1
            self.records += commit.n_records
            self.bytes += sum(file.bytes for file in commit.files)
            self.filtered += commit.filtered
            self.quarantined += commit.quarantined
            for gap in commit.gaps:
                if gap.kind == "lost":
                    self._lose(place, gap.first, gap.until, "retention was faster")
        if outcome.error is None:
            self.failing.pop(place, None)
        elif self.failing.get(place) != str(outcome.error):
            self.failing[place] = str(outcome.error)
            LOGGER.warning("%s: %s", self.name, outcome.error)

    def on_lost(self, remade: Remade) -> None:
        """See `Watcher`."""
        place = f"{remade.spot.topic}/{remade.spot.partition}"
        self.failing.pop(place, None)
        self._lose(place, remade.head, remade.end, "the topic was deleted or made anew")

    def on_away(self, error: LyrebirdError) -> None:
        """See `Watcher`."""
        if self.away != str(error):
            LOGGER.warning("%s waits: %s", self.name, error)
        self.away = str(error)

    def on_back(self) -> None:
        """See `Watcher`."""
        LOGGER.warning("%s goes on", self.name)
        self.away = ""

    def to_json(self, driver: Driver) -> dict[str, Any]:
        """Plain values for progress.json."""
        return {
            "cuts": self.cuts,
            "records": self.records,
            "bytes": self.bytes,
            "filtered": self.filtered,
            "quarantined": self.quarantined,
            "waiting": sum(driver.planner.waiting().values()),
            "lost": list(self.lost),
            "failing": dict(self.failing),
            "away": self.away,
        }

    def _lose(self, place: str, first: int, until: int, why: str) -> None:
        self.lost.append(f"{place}: offsets {first} to {until - 1}: {why}")
        LOGGER.error("%s lost records before they were stored: %s", self.name, self.lost[-1])


class Host:
    """One application with its groups. `stop`: whether it was asked to end, besides by its run folder."""

    def __init__(
        self,
        application: str,
        hosted: Sequence[tuple[Driver, Report]],
        run_folder: RunFolder,
        clock: Clock,
        stop: Callable[[], bool],
    ) -> None:
        self._application, self._hosted = application, hosted
        self._run_folder, self._clock, self._stop = run_folder, clock, stop
        self._told_s: float | None = None

    def serve(self) -> None:
        """Store what is due until a stop is asked for, and wait for the tasks that run; raises what a driver raises."""
        while not self._stopped():
            self._step("")
        self._end()

    def drain(self, *, flush: bool) -> None:
        """Store what the log has now, by the policy or all of it, and return.

        Raises:
            Transient: log or store do not answer at the start.
            Terminal: some partitions must not go on; the others are stored.
        """
        for driver, _ in self._hosted:
            driver.freeze()
        asked: Asked = "flush" if flush else ""
        while any(driver.left(asked) for driver, _ in self._hosted) and not self._stopped():
            self._step(asked)
        self._end()
        stopped = [each for driver, _ in self._hosted for each in driver.planner.stopped.items()]
        if stopped:
            (spot, reason), *_ = stopped
            raise Terminal(
                "not all of the log is stored",
                topic=spot.topic,
                partition=spot.partition,
                reason=reason,
                partitions=len(stopped),
                fix="Mend that; the next run goes on there.",
            )

    def _stopped(self) -> bool:
        return self._stop() or self._run_folder.stop_requested()

    def _step(self, asked: Asked) -> None:
        for driver, _ in self._hosted:
            driver.step(asked)
        now_s = self._clock.monotonic_s()
        if self._told_s is None or now_s - self._told_s >= _REPORT_EVERY_S:
            self._told_s = now_s
            self._tell()
        self._clock.sleep(_STEP_S)

    def _end(self) -> None:
        while any(driver.planner.busy for driver, _ in self._hosted):
            for driver, _ in self._hosted:
                driver.settle()
            self._clock.sleep(_STEP_S)
        self._tell()

    def _tell(self) -> None:
        groups = {report.name: report.to_json(driver) for driver, report in self._hosted}
        self._run_folder.report(application=self._application, groups=groups)
