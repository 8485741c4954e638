"""The open incidents of an application of the lake: mailed once each by whoever supervises it.

Ids are kept in the run folder, so that a restart gives none a new one. What ends the application has an id for each
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from include.clock import Clock
from include.errors import LyrebirdError, Terminal
from include.lake.definition import LakeGroup
from include.lake.driver import Watcher
from include.lake.group_incidents import GroupIncidents
from include.lake.incident import Incident, IncidentKind, LeftStanding, end_incident
from include.lake.incident_ledger import IncidentLedger, Keeper
from include.lake.planner import Planner, Remade
from include.lake.task import Outcome
from include.lake.troubles import Troubles
from include.lake.untold_cuts import ReadCuts, UntoldCuts

__all__ = ["Incidents", "Watchers"]


class Watchers(Watcher):
    """Several that hear the same, in their order."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def on_outcome(self, outcome: Outcome) -> None:
        """See `Watcher`."""
        for each in self._watchers:
            each.on_outcome(outcome)

    def on_lost(self, remade: Remade) -> None:
        """See `Watcher`."""
        for each in self._watchers:
            each.on_lost(remade)

    def on_away(self, error: LyrebirdError) -> None:
        """See `Watcher`."""
        for each in self._watchers:
            each.on_away(error)

    def on_back(self) -> None:
        """See `Watcher`."""
        for each in self._watchers:
            each.on_back()


class Incidents:
    """Of one application. `look` at its planners once a second or so. Not for use from several threads."""

    def __init__(self, application: str, keeper: Keeper, clock: Clock) -> None:
        self._application, self._clock = application, clock
        self._ledger = IncidentLedger(keeper, clock)
        self._troubles = Troubles(application, self._ledger, clock)
        self._groups: dict[str, GroupIncidents] = {}
        self._known: set[str] = {each.id for each in self._ledger.all()}

    def of(self, name: str, group: LakeGroup, read: ReadCuts) -> Watcher:
        """The watcher of a group; `read` gives commits of its chains."""
        untold = UntoldCuts(self._ledger.heard, f"{name}:", read)
        found = GroupIncidents(name, group, self._ledger, self._troubles, untold, self._clock)
        self._groups[name] = found
        return found

    def look(self, planners: Mapping[str, Planner]) -> list[Incident]:
        """All that are open now; they are kept when it returns."""
        for name, planner in planners.items():
            self._groups[name].look(planner)
        self._troubles.look()
        self._ledger.save()
        return self._ledger.all()

    def fresh(self, found: Iterable[Incident]) -> list[IncidentKind]:
        """Kinds of those that were not open before: for a counter."""
        kinds: list[IncidentKind] = [each.kind for each in found if each.id not in self._known]
        self._known |= {each.id for each in found}
        return kinds

    def on_end(self, error: Terminal) -> Incident:
        """Why the application ends, where a restart would meet the same. What is told already keeps its id."""
        ended = end_incident(self._application, error, self._clock.now_us())
        standing = [each for each in self._ledger.all() if each.kind == "standing"]
        return replace(ended, id=standing[0].id) if isinstance(error, LeftStanding) and standing else ended

    def close(self) -> None:
        """Keep all; the application ends."""
        self._ledger.save(whole=True)
