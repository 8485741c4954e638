"""Keeps the drivers of an application's groups going until it is asked to stop, and tells how far they are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from include.clock import Clock
from include.lake.incidents.incidents import LakeIncidents
from include.lake.incidents.kinds import LeftStanding
from include.lake.upload_policy import Asked
from include.lake.writing.driver import Driver
from include.lake.writing.group_metrics import GroupMetrics
from include.lake.writing.lag_offsets import LagOffsets
from include.lake.writing.report import GroupReport
from include.metrics.progress import RunFolder

__all__ = ["GroupHost"]

LOGGER: Final = logging.getLogger("lyrebird.lake")
_STEP_S: Final = 0.05
_REPORT_EVERY_S: Final = 1.0
_SAY_EVERY_S: Final = 10.0
_NO_LAG: Final[Mapping[str, LagOffsets]] = MappingProxyType({})


class GroupHost:
    """One application with its groups.

    Args:
        application: its name.
        hosted: each group's driver, and the report that counts what it does.
        run_folder: where progress goes and a request to end comes from.
        clock: for pauses, and times between reports.
        stop: whether the application was asked to end, besides by its run folder.
        metrics: of the groups; None: nobody reads them.
        lag: group → where its heads are shown.
        incidents: heard what the drivers' watchers did, and are told with the progress; None: nobody hears of any.
    """

    def __init__(
        self,
        application: str,
        hosted: Sequence[tuple[Driver, GroupReport]],
        run_folder: RunFolder,
        clock: Clock,
        stop: Callable[[], bool],
        metrics: GroupMetrics | None = None,
        lag: Mapping[str, LagOffsets] = _NO_LAG,
        incidents: LakeIncidents | None = None,
    ) -> None:
        self._application, self._hosted = application, hosted
        self._run_folder, self._clock, self._stop, self._metrics = run_folder, clock, stop, metrics
        self._lag, self._incidents = lag, incidents
        self._told_s: float | None = None
        self._said_s = clock.monotonic_s()

    def serve(self) -> None:
        """Store what is due until a stop is asked for, and wait for the tasks that run; raises what a driver raises."""
        while not self._stopped():
            self._step("")
        self._end()

    def drain(self, *, flush: bool) -> None:
        """Store what the log has now, by the policy or all of it, and return.

        Raises:
            Transient: log or store do not answer at the start, or the store at the end; what is stored stays.
            LeftStanding: some partitions must not go on; the others are stored.
        """
        for driver, _ in self._hosted:
            driver.freeze(self._tell_in_time)
        asked: Asked = "flush" if flush else ""
        whole = False
        while not (self._stopped() or (whole := not any(driver.left(asked) for driver, _ in self._hosted))):
            self._step(asked)
            self._say()
        self._settle()
        for driver, _ in self._hosted:
            driver.note()
        stopped = [(report.name, *each) for driver, report in self._hosted for each in driver.planner.stopped.items()]
        if whole and not stopped and self._incidents is not None:
            self._incidents.on_well()
        self._end(ends=True)
        if stopped:
            (name, tp, reason), *_ = stopped
            raise LeftStanding(
                "not all of the log is stored",
                group=name,
                topic=tp.topic,
                partition=tp.partition,
                reason=reason,
                partitions=len(stopped),
                fix="Mend that; the next run goes on there.",
            )

    def _stopped(self) -> bool:
        return self._stop() or self._run_folder.stop_requested()

    def _step(self, asked: Asked) -> None:
        for driver, _ in self._hosted:
            driver.step(asked, self._tell_in_time)
        self._tell_in_time()
        self._clock.sleep(_STEP_S)

    def _tell_in_time(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._told_s is None or now_s - self._told_s >= _REPORT_EVERY_S:
            self._told_s = now_s
            for driver, report in self._hosted:
                if report.name in self._lag:
                    self._lag[report.name].show(report, driver.planner)
            self._tell()

    def _settle(self) -> None:
        while any(driver.planner.busy for driver, _ in self._hosted):
            for driver, _ in self._hosted:
                driver.settle()
            self._clock.sleep(_STEP_S)

    def _end(self, *, ends: bool = False) -> None:
        self._settle()
        for driver, report in self._hosted:
            if report.name in self._lag:
                self._lag[report.name].close(report, driver.planner)
        self._tell(ends=ends)
        if self._incidents is not None:
            self._incidents.save(whole=True)

    def _tell(self, *, ends: bool = False) -> None:
        groups = {report.name: report.to_json(driver.planner) for driver, report in self._hosted}
        if self._metrics is not None:
            for driver, report in self._hosted:
                self._metrics.show(report, driver.planner)
        told = {}
        if self._incidents is not None:
            planners = {report.name: driver.planner for driver, report in self._hosted}
            found = self._incidents.look(planners, ends=ends)
            if self._metrics is not None:
                self._metrics.count_incidents(self._incidents.fresh())
            told["incidents"] = [each.to_json() for each in found]
        self._run_folder.report(application=self._application, groups=groups, **told)

    def _say(self) -> None:
        """A line now and then: somebody waits for the end of this."""
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            for driver, report in self._hosted:
                LOGGER.info("%s; %d records wait", report, sum(driver.planner.waiting().values()))
