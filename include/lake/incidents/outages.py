"""Opens and ends the incidents of systems that groups rest on, where one refuses or is silent for a minute.

Each partition that fails for a system, and each driver that waits for one, is a place of its trouble. The trouble is
over when none of its places is left, and its incident a minute later, so that one that comes and goes is told once.
"""

from __future__ import annotations

from typing import Final

from include.clock import Clock, iso
from include.errors import LyrebirdError
from include.incidents.ledger import IncidentLedger
from include.lake.incidents.diagnosis import Diagnosis, System, diagnose, system_of
from include.lake.incidents.kinds import SYSTEMS, next_command

__all__ = ["Outages"]

_MINUTE_US: Final = 60_000_000


class Outages:
    """Of one application. Not for use from several threads."""

    def __init__(self, application: str, ledger: IncidentLedger, clock: Clock) -> None:
        self._application, self._ledger, self._clock = application, ledger, clock
        self._since_us: dict[System, dict[str, int]] = {name: {} for name in SYSTEMS}
        self._good_us: dict[System, int] = {}
        self._last: dict[System, Diagnosis] = {}
        self._alone: set[str] = set()

    def on_error(self, place: str, error: LyrebirdError, *, alone: bool = False) -> None:
        """Something has failed at `place`; what none of the systems is to blame for changes nothing.

        `alone`: an object of that place is refused, and says nothing of others.
        """
        system = system_of(error)
        if system is None:
            return
        if alone:
            self._alone.add(place)
        self._since_us[system].setdefault(place, self._clock.now_us())
        self._good_us.pop(system, None)
        self._last[system] = diagnose(error)

    def on_good(self, place: str) -> None:
        """All that `place` rests on answered."""
        self._alone.discard(place)
        for system, places in self._since_us.items():
            places.pop(place, None)
            if not places:
                self._good_us.setdefault(system, self._clock.now_us())

    @property
    def there(self) -> bool:
        """Whether something has failed anywhere, not alone, and not gone well since, or only just has."""
        return any(
            places.keys() - self._alone or (not places and self._ledger.find(SYSTEMS[system]))
            for system, places in self._since_us.items()
        )

    def at(self, place: str) -> bool:
        """Whether something has failed at `place` for one of the systems, and not gone well since."""
        return any(place in places for places in self._since_us.values())

    def look(self) -> None:
        """Open and end incidents by what was heard until now."""
        now_us = self._clock.now_us()
        for system, places in self._since_us.items():
            if places:
                since_us = min(places.values())
                if now_us - since_us >= _MINUTE_US:
                    self._note(system, since_us)
            elif now_us - self._good_us.get(system, now_us) >= _MINUTE_US:
                self._ledger.end(SYSTEMS[system])

    def _note(self, system: System, since_us: int) -> None:
        last, kind = self._last[system], SYSTEMS[system]
        since = self._ledger.find(kind).get("since", iso(since_us))
        words = {"since": since, "trouble": last.trouble, "problem": last.text, "advice": last.fix}
        fix = next_command(last.fix)
        self._ledger.note(kind, fix=fix, more={"since": since}, application=self._application, **words)
