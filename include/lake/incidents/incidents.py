"""The open incidents of an application of the lake: mailed once each by whoever supervises it.

Ids are kept in the run folder, so that a restart gives none a new one. What ends the application has an id for each
end; where it is run on a schedule, one for all runs that end alike, until one goes well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from typing_extensions import override

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.lake.definition import LakeGroup
from include.lake.incidents.group_incidents import GroupIncidents
from include.lake.incidents.kinds import LeftStanding, end_incident
from include.lake.incidents.outages import Troubles
from include.lake.incidents.unreported_commits import ReadCuts, UntoldCuts
from include.lake.writing.driver import GroupWatcher
from include.lake.writing.planner import GroupPlanner, Remade
from include.lake.writing.task import Outcome
from include.metrics.incidents import Incident, IncidentLedger, Keeper

__all__ = ["LakeIncidents", "Watchers"]


class Watchers(GroupWatcher):
    """Several that hear the same, in their order."""

    def __init__(self, *watchers: GroupWatcher) -> None:
        self._watchers = watchers

    @override
    def on_outcome(self, outcome: Outcome) -> None:
        for each in self._watchers:
            each.on_outcome(outcome)

    @override
    def on_lost(self, remade: Remade) -> None:
        for each in self._watchers:
            each.on_lost(remade)

    @override
    def on_away(self, error: LyrebirdError) -> None:
        for each in self._watchers:
            each.on_away(error)

    @override
    def on_back(self) -> None:
        for each in self._watchers:
            each.on_back()


class LakeIncidents:
    """Of one application. `look` at its planners once a second or so. Not for use from several threads."""

    def __init__(self, application: str, keeper: Keeper, clock: Clock) -> None:
        self._application, self._clock = application, clock
        self._ledger = IncidentLedger(keeper, clock)
        self._troubles = Troubles(application, self._ledger, clock)
        self._groups: dict[str, GroupIncidents] = {}
        self._known: set[str] = {each.id for each in self._ledger.all()}

    def of(self, name: str, group: LakeGroup, read: ReadCuts) -> GroupWatcher:
        """The watcher of a group; `read` gives commits of its chains."""
        untold = UntoldCuts(self._ledger.heard, f"{name}:", read)
        found = GroupIncidents(name, group, self._ledger, self._troubles, untold, self._clock)
        self._groups[name] = found
        return found

    def look(self, planners: Mapping[str, GroupPlanner], *, ends: bool = False) -> list[Incident]:
        """All that are open now; they are kept when it returns. `ends`: what stands still now stays so."""
        for name, planner in planners.items():
            self._groups[name].look(planner, ends=ends)
        self._troubles.look()
        self._ledger.save()
        return self._ledger.all()

    def fresh(self, found: Iterable[Incident]) -> list[str]:
        """Kinds of those that were not open before: for a counter."""
        kinds = [each.kind for each in found if each.id not in self._known]
        self._known |= {each.id for each in found}
        return kinds

    def on_end(self, error: Terminal, *, again: bool = False) -> Incident:
        """Why the application ends, where a restart would meet the same. What is told already keeps its id.

        `again`: it is run on a schedule, so that its next runs may end alike.
        """
        if isinstance(error, LeftStanding):
            group = error.details.get("group")
            for each in self._ledger.all():
                if each.kind == "standing" and group in (None, each.group):
                    return each
        ended = end_incident(self._application, error, self._clock.now_us(), again=again)
        if not again:
            return ended
        key = f"{ended.kind}:{self._application}:{_alike(error)}"
        self._ledger.note(key, ended.kind, "", ended.text, ended.fix)
        self._ledger.save()
        (noted,) = (each for each in self._ledger.all() if each.id.rpartition(":")[0] == key)
        return noted

    def on_well(self) -> None:
        """A run on a schedule has done all that it had to: whatever ended those before is over."""
        for kind in ("fenced", "stopped"):
            for key in self._ledger.keys(f"{kind}:{self._application}:"):
                self._ledger.end(key)

    def close(self) -> None:
        """Keep all; the application ends."""
        self._ledger.save(whole=True)


def _alike(error: Terminal) -> str:
    """The same for ends that are one incident: without what differs from run to run, as offsets and reasons do."""
    where = [str(error.details.get(name)) for name in ("file", "path", "topic") if name in error.details]
    return hashlib.sha256("\0".join([error.message, *where]).encode()).hexdigest()[:8]
