"""What is open of an application's incidents, kept in its run folder so that a restart gives nothing a new id.

Airflow mails each id that stands in `incidents` of progress.json once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from include.clock import Clock

__all__ = ["Incident", "IncidentLedger", "Keeper"]

_FILE: Final = "incidents.json"
_SAVE_HEARD_US: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that a person must know. `id` is the same for as long as it lasts.

    `kind` is one of those that the application declares, `text` says what happened, `fix` is a command. `group` is the
    part of the application that it is about, "" for all of it.
    """

    id: str
    kind: str
    group: str
    text: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as progress.json has them."""
        return asdict(self)

    @property
    def at_us(self) -> int:
        """When it began."""
        return int(self.id.rpartition(":")[2])


class Keeper(Protocol):
    """The part of a `RunFolder` that outlives its process."""

    def keep(self, name: str, value: dict[str, Any]) -> None:
        """Write a file, all or nothing."""

    def kept(self, name: str) -> dict[str, Any]:
        """What was written last; {} for nothing."""


class IncidentLedger:
    """Open incidents by key: the condition that they are about. Changes are durable after `save`.

    `heard` is how far each source of incidents was listened to: kept in the same file, so neither is without the other.
    """

    def __init__(self, keeper: Keeper, clock: Clock) -> None:
        self._keeper, self._clock = keeper, clock
        found = keeper.kept(_FILE)
        self._open: dict[str, dict[str, Any]] = dict(found.get("open") or {})
        self.heard: dict[str, int] = dict(found.get("heard") or {})
        self._saved_us, self._saved_places = clock.now_us(), len(self.heard)
        self._changed = False
        self._last_us = 0

    def note(self, key: str, kind: str, group: str, text: str, fix: str, **more: Any) -> None:
        """Open an incident, or bring up to date what it says: its id stays. `more` is kept with it."""
        before = self._open.get(key)
        if before is None:
            # Greater than any before: two of one moment are two.
            self._last_us = at_us = max(self._clock.now_us(), self._last_us + 1)
        else:
            at_us = before["at_us"]
        now = {"at_us": at_us, "kind": kind, "group": group, "text": text, "fix": fix, **more}
        if now != before:
            self._open[key] = now
            self._changed = True

    def end(self, key: str) -> None:
        """It is over; the next one of this key has another id. Nothing where none is open."""
        if self._open.pop(key, None) is not None:
            self._changed = True

    def find(self, key: str) -> dict[str, Any] | None:
        """What is kept of an open incident: `at_us` when it began, its words, and `more`."""
        return self._open.get(key)

    def keys(self, start: str) -> Iterator[str]:
        """Keys of open incidents that start so; they may be ended meanwhile."""
        return iter([key for key in self._open if key.startswith(start)])

    def all(self) -> list[Incident]:
        """All that are open, the oldest first."""
        found = sorted(self._open.items(), key=lambda each: (each[1]["at_us"], each[0]))
        return [
            Incident(f"{key}:{each['at_us']}", each["kind"], each["group"], each["text"], each["fix"])
            for key, each in found
        ]

    def save(self, *, whole: bool = False) -> None:
        """Keep what has changed; of `heard` alone new places, the rest once a minute, or now (`whole`)."""
        now_us = self._clock.now_us()
        more = len(self.heard) != self._saved_places
        old = self.heard and now_us - self._saved_us >= _SAVE_HEARD_US
        if self._changed or whole or more or old:
            self._keeper.keep(_FILE, {"open": self._open, "heard": self.heard})
            self._saved_us, self._saved_places, self._changed = now_us, len(self.heard), False
