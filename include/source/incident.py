"""What a person must know of a capture that runs: told once each, by mail, wherever it is supervised.

Tables set aside or in want of rows stand in capture's own state, so in the log. A short purge horizon and a take-over
do not: they are kept in the run folder, so that a restart gives them no new id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from include.clock import Clock
from include.errors import Fenced
from include.metrics.progress import RunFolder
from include.source.purge import Horizon
from include.source.state import Aside, CaptureState

__all__ = ["Incident", "IncidentKind", "Incidents", "incidents_of"]

IncidentKind = Literal["aside", "orphans", "purge", "fenced"]
"""aside: a table's rows cannot be read; orphans: a table may lack changes by cascade; purge: the server soon purges
what capture still needs; fenced: another capture of the source has taken over."""

_KEPT: Final = "incidents.json"
# Once told, the horizon must recover this far before the next time counts as another incident.
_RECOVERED_HOURS: Final = 36.0
# Captures that take over from each other in turns are one incident.
_SAME_FIGHT_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing to tell. `id` is the same for as long as it lasts; `text` says what happened; `fix` is a command."""

    id: str
    kind: IncidentKind
    table: str
    text: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as progress.json has them."""
        return asdict(self)


def incidents_of(source: str, state: CaptureState) -> list[Incident]:
    """Those that the state tells."""
    told: tuple[tuple[IncidentKind, Mapping[str, Aside], str], ...] = (
        ("aside", state.aside, "is set aside"),
        ("orphans", state.orphans, "may lack changes"),
    )
    return [
        Incident(
            f"{kind}:{table}:{why.position}",
            kind,
            table,
            f"table {table} of {source} {what} since {_place(why)}: {why.cause}",
            f"lyrebird capture resume-table --source {source} {table}",
        )
        for kind, tables, what in told
        for table, why in sorted(tables.items())
    ]


class Incidents:
    """The open incidents of one capture."""

    def __init__(self, source: str, folder: RunFolder, clock: Clock) -> None:
        self._source, self._folder, self._clock = source, folder, clock
        self._kept = folder.kept(_KEPT)
        self._of_state: list[Incident] = []
        self._state: CaptureState | None = None

    def on_state(self, state: CaptureState) -> None:
        """What capture's state is now."""
        if self._state is None or (state.aside, state.orphans) != (self._state.aside, self._state.orphans):
            self._of_state = incidents_of(self._source, state)
        self._state = state

    def on_horizon(self, horizon: Horizon | None) -> None:
        """What is known of the purge horizon; None and unknown change nothing."""
        since = self._kept.get("purge")
        if horizon is None:
            return
        if horizon.short:
            text = (
                f"in {horizon.hours:.1f} h the server of {self._source} purges the binlog from which capture goes on "
                f"({horizon.basis}); raise that limit, or see that capture catches up"
            )
            if since is None or since["text"] != text:
                at_us = self._clock.now_us() if since is None else since["at_us"]
                self._keep("purge", {"at_us": at_us, "text": text})
        elif since is not None and (horizon.basis.startswith("never") or (horizon.hours or 0.0) >= _RECOVERED_HOURS):
            self._keep("purge", None)

    def on_fenced(self, error: Fenced) -> None:
        """Another capture has taken over; the same incident as the last one within an hour."""
        now_us = self._clock.now_us()
        last = self._kept.get("fenced")
        first_us = last["at_us"] if last and now_us - last["last_us"] < _SAME_FIGHT_US else now_us
        text = f"capture of {self._source} was taken over: {error}"
        self._keep("fenced", {"at_us": first_us, "last_us": now_us, "text": text})

    def open(self) -> list[Incident]:
        """All that are open now."""
        found = list(self._of_state)
        fix = f"lyrebird capture status --source {self._source}"
        purge, fenced = self._kept.get("purge"), self._kept.get("fenced")
        if purge is not None:
            found.append(Incident(f"purge:{purge['at_us']}", "purge", "", purge["text"], fix))
        if fenced is not None and self._clock.now_us() - fenced["last_us"] < _SAME_FIGHT_US:
            found.append(Incident(f"fenced:{fenced['at_us']}", "fenced", "", fenced["text"], fix))
        return found

    def _keep(self, kind: str, value: dict[str, Any] | None) -> None:
        self._kept = {name: each for name, each in self._kept.items() if name != kind}
        if value is not None:
            self._kept[kind] = value
        self._folder.keep(_KEPT, self._kept)


def _place(why: Aside) -> str:
    return f"{why.gtid} ({why.position})" if why.gtid else why.position
