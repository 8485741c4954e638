"""Keeps an application's open incidents in its run folder, so that a restart gives none of them a new id.

Airflow mails each id that stands in `incidents` of progress.json once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from include.clock import Clock
from include.incidents.kind import Incident, IncidentKind
from include.metrics.progress import RunFolder

__all__ = ["IncidentLedger"]

_FILE: Final = "incidents.json"
_SAVE_HEARD_US: Final = 60_000_000
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class IncidentLedger:
    """Open incidents by kind and subject: the condition that they are about. Durable after `save`, or `open`.

    `heard` is how far each source of incidents was listened to: kept in the same file, so neither is without the other.
    """

    def __init__(self, folder: RunFolder, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        kept = folder.kept(_FILE)
        self._saved: dict[str, dict[str, Any]] = kept.get("open") or _of_capture(kept)
        self._open = dict(self._saved)
        # Those that nobody was told before, and that have not been noted since: the restart may have ended them.
        self._unheard = {key for key, entry in self._saved.items() if entry.get("pending")}
        self.heard: dict[str, int] = dict(kept.get("heard") or {})
        self._saved_us, self._saved_places = clock.now_us(), len(self.heard)
        self._last_us = 0
        self._counted = {each.id for each in self.all()}

    def note(
        self,
        kind: IncidentKind,
        subject: str = "",
        *,
        group: str = "",
        fix: str = "",
        opens_us: int = 0,
        lasts_us: int = 0,
        adds: int = 0,
        more: Mapping[str, Any] = _NOTHING,
        kept: bool = True,
        **names: Any,
    ) -> Incident:
        """Open an incident, or bring up to date what it says: its id stays.

        Args:
            kind: whose words it has.
            subject: which of its kind this is.
            group: the part of the application that it is about.
            fix: the command to run next, where an error names another than the kind does.
            opens_us: wall clock before which nobody is told, nor, over a restart until then, before it is noted again.
            lasts_us: it ends so long after it was noted last; 0: when `end` says so.
            adds: is added to `count`, which is kept, and one of the names.
            more: is kept with it.
            kept: False for what is read again after a restart; then the subject names this occurrence, and is the id.
            names: of the kind's words.
        """
        key, now_us = _key(kind, subject), self._clock.now_us()
        before = self._open.get(key)
        if before is None:
            # Greater than any before: two of one moment are two.
            self._last_us = at_us = max(now_us, self._last_us + 1)
        else:
            at_us = before["at_us"]
        if adds:
            names["count"] = adds + (before or {}).get("count", 0)
            more = {**more, "count": names["count"]}
        text, command = kind.words(**names)
        entry = {
            **{"at_us": at_us, "kind": kind.name, "severity": kind.severity, "page": kind.page},
            **{"group": group, "text": text, "fix": fix or command, **more},
        }
        if opens_us:
            entry |= {"opens_us": opens_us, "pending": opens_us > now_us}
        if lasts_us:
            entry["until_us"] = now_us + lasts_us
        if not kept:
            entry["kept"] = False
        self._open[key] = entry
        self._unheard.discard(key)
        return _incident(key, entry)

    def amend(self, kind: IncidentKind, subject: str, **more: Any) -> None:
        """Keep something else with an open incident, whose words stay."""
        key = _key(kind, subject)
        self._open[key] = {**self._open[key], **more}

    def end(self, kind: IncidentKind, subject: str = "") -> None:
        """It is over; the next one has another id. Nothing where none is open."""
        self._open.pop(_key(kind, subject), None)

    def only(self, kind: IncidentKind, subjects: Collection[str]) -> None:
        """All others of this kind are over."""
        for subject in self.subjects(kind):
            if subject not in subjects:
                self.end(kind, subject)

    def find(self, kind: IncidentKind, subject: str = "") -> dict[str, Any]:
        """The kept fields of an incident: `at_us` when it began, its words, and `more`; empty for none."""
        return self._open.get(_key(kind, subject)) or {}

    def subjects(self, kind: IncidentKind, start: str = "") -> list[str]:
        """Of this kind, those that start so."""
        prefix = f"{kind.name}:"
        return [key.removeprefix(prefix) for key in self._open if key.startswith(prefix + start)]

    def all(self) -> list[Incident]:
        """All that are open, the oldest first."""
        now_us = self._clock.now_us()
        found = sorted(self._open.items(), key=lambda each: (each[1]["at_us"], each[0]))
        return [
            _incident(key, entry)
            for key, entry in found
            if entry.get("opens_us", 0) <= now_us and key not in self._unheard
        ]

    def open(self) -> list[dict[str, Any]]:
        """All that are open, as progress.json has them; they are kept when it returns."""
        self.save()
        return [each.to_json() for each in self.all()]

    def fresh(self) -> list[str]:
        """Kinds of those that have opened since it was asked last: for a counter."""
        found = {each.id: each.kind for each in self.all()}
        kinds = [kind for id_, kind in found.items() if id_ not in self._counted]
        self._counted |= found.keys()
        return kinds

    def save(self, *, whole: bool = False) -> None:
        """End what is over by its time; keep what has changed: of `heard` alone new places, the rest once a minute.

        `whole`: all of it now.
        """
        now_us = self._clock.now_us()
        self._open = {key: each for key, each in self._open.items() if now_us < each.get("until_us", now_us + 1)}
        kept = {key: each for key, each in self._open.items() if each.get("kept", True)}
        more = len(self.heard) != self._saved_places
        old = self.heard and now_us - self._saved_us >= _SAVE_HEARD_US
        if kept != self._saved or whole or more or old:
            self._folder.keep(_FILE, {"open": kept, "heard": self.heard})
            self._saved, self._saved_us, self._saved_places = kept, now_us, len(self.heard)


def _key(kind: IncidentKind, subject: str) -> str:
    return f"{kind.name}:{subject}" if subject else kind.name


def _incident(key: str, entry: Mapping[str, Any]) -> Incident:
    id_ = f"{key}:{entry['at_us']}" if entry.get("kept", True) else key
    of_kind = entry.get("severity", ""), entry.get("page", "")
    return Incident(id_, entry["kind"], entry["group"], entry["text"], entry["fix"], *of_kind)


def _of_capture(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What capture kept by itself until 0.1, a short purge horizon and a wait of five minutes: read for one release."""
    kinds = [kind for kind in ("purge", "waiting") if found.get(kind)]
    kept = {kind: {"kind": kind, "group": "", "fix": "", **found[kind]} for kind in kinds}
    if "waiting" in kept:
        opens_us = kept["waiting"]["at_us"] + 300_000_000
        kept["waiting"] |= {"opens_us": opens_us, "pending": True}
    return kept
