"""The open incidents of an application of the lake: mailed once each by whoever supervises it.

Ids are kept in the run folder, so that a restart gives none a new one. What ends the application has an id for each
end; where it is run on a schedule, one for all runs that end alike, until one goes well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from include.clock import Clock, SystemClock
from include.errors import Fenced, Restart, Terminal
from include.incidents.kind import Incident
from include.incidents.ledger import IncidentLedger
from include.lake.definition import LakeGroup
from include.lake.incidents.group_incidents import GroupIncidents
from include.lake.incidents.kinds import FENCED, STANDING, STOPPED, LeftStanding, next_command
from include.lake.incidents.outages import Outages
from include.lake.incidents.unreported_commits import ReadCuts, UnreportedCuts
from include.lake.writing.driver import GroupWatcher
from include.lake.writing.planner import GroupPlanner
from include.metrics.progress import GAVE_UP, RunFolder
from include.settings.environment import state_folder

__all__ = ["LakeIncidents", "ending_told"]

_THEN = " Then start it again (under Airflow: clear its task)."
_NEXT_RUN = " Then the next run goes on."


class LakeIncidents(IncidentLedger):
    """Of one application. `look` at its planners once a second or so. Not for use from several threads."""

    def __init__(self, application: str, folder: RunFolder, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._application = application
        self._outages = Outages(application, self, clock)
        self._groups: dict[str, GroupIncidents] = {}

    def of(self, name: str, group: LakeGroup, read: ReadCuts, beside: GroupWatcher) -> GroupWatcher:
        """The watcher of a group; `read` gives commits of its chains, `beside` hears the same."""
        untold = UnreportedCuts(self.heard, f"{name}:", read)
        self._groups[name] = GroupIncidents(name, group, self, self._outages, untold, self._clock, beside)
        return self._groups[name]

    def look(self, planners: Mapping[str, GroupPlanner], *, ends: bool = False) -> list[Incident]:
        """All that are open now; they are kept when it returns. `ends`: what stands still now stays so."""
        for name, planner in planners.items():
            self._groups[name].look(planner, ends=ends)
        self._outages.look()
        self.save()
        return self.all()

    def on_end(self, error: Terminal, *, again: bool = False) -> Incident:
        """Why the application ends, where a restart would meet the same. What is told already keeps its id.

        `again`: it is run on a schedule, so that its next runs may end alike.
        """
        if isinstance(error, LeftStanding):
            group = error.details.get("group")
            for each in self.all():
                if each.kind == STANDING.name and group in (None, each.group):
                    return each
        ended = self.note(
            FENCED if isinstance(error, Fenced) else STOPPED,
            f"{self._application}:{_alike(error) if again else self._clock.now_us()}",
            fix=next_command(error.fix),
            kept=again,
            application=self._application,
            error=str(error).rstrip("."),
            then=_NEXT_RUN if again else _THEN,
        )
        self.save()
        return ended

    def on_well(self) -> None:
        """A run on a schedule has done all that it had to: whatever ended those before is over."""
        for kind in (FENCED, STOPPED):
            for subject in self.subjects(kind, f"{self._application}:"):
                self.end(kind, subject)


def _alike(error: Terminal) -> str:
    """The same for ends that are one incident: without what differs from run to run, as offsets and reasons do."""
    where = [str(error.details.get(name)) for name in ("file", "path", "topic") if name in error.details]
    return hashlib.sha256("\0".join([error.message, *where]).encode()).hexdigest()[:8]


@contextmanager
def ending_told(application: str, *, again: bool = False) -> Iterator[None]:
    """Leave why the work inside ended in gave-up.json, where a restart would meet the same; raises it again.

    `again`: the application is run on a schedule. What the same run has left there already stays.
    """
    try:
        yield
    except Terminal as error:
        if not isinstance(error, Restart):
            clock = SystemClock()
            folder = RunFolder.from_environment(application, state_folder(), clock)
            if not folder.kept(GAVE_UP):
                folder.give_up(LakeIncidents(application, folder, clock).on_end(error, again=again).to_json())
        raise
