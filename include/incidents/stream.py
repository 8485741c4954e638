"""Incidents of any stream that copies topics: records set aside, a growing delay."""

from __future__ import annotations

from typing import Any, Final

from include.clock import Clock
from include.incidents.kind import IncidentKind
from include.incidents.ledger import IncidentLedger
from include.metrics.progress import RunFolder

__all__ = ["StreamIncidents", "lag_kind", "refused_kind"]

_QUIET_US: Final = 3_600_000_000


def refused_kind(stage: str, page: str, fix: str) -> IncidentKind:
    """Records of a topic are set aside; names of `fix` are `name` and `topic`."""
    return IncidentKind("refused", stage, "error", page,
        opens="records of a topic cannot be read; they are in its dead-letter topic", ends="none has come for an hour",
        text="{count:,} records of {topic} could not be read and were set aside in {dead}: rows of theirs are missing "
             "in {product}",
        fix=fix)  # fmt: skip


def lag_kind(stage: str, page: str, fix: str) -> IncidentKind:
    """The stream is too far behind its sources; the name of `fix` is `name`."""
    return IncidentKind("lag", stage, "warning", page,
        opens="what was committed last at the sources is older than `lag_alarm_s`", ends="it is not any more",
        text="{product}: {age_s:,.0f} s behind the sources, more than lag_alarm_s: {lag_s:,.0f} s",
        fix=fix)  # fmt: skip


class StreamIncidents(IncidentLedger):
    """The open incidents of one stream; `open` at the end of each batch.

    Args:
        name: the stream's, as people know it.
        product: what it makes.
        folder: of its run.
        clock: when things were noticed.
    """

    def __init__(self, name: str, product: str, folder: RunFolder, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._name, self._product = name, product
        # As streams kept them until 0.1: read for one release.
        for entry in self._open.values():
            if "newest_us" in entry:
                entry["until_us"] = entry.pop("newest_us") + _QUIET_US

    def set_aside(self, kind: IncidentKind, count: int, what: str, **names: Any) -> None:
        """So many more of `what` were set aside; open until none has come for an hour."""
        if count:
            self._note(kind, what, adds=count, lasts_us=_QUIET_US, **names)

    def refused(self, kind: IncidentKind, count: int, topic: str, dead: str) -> None:
        """So many more records of a topic were set aside in `dead`."""
        self.set_aside(kind, count, topic, topic=topic, dead=dead)

    def lag(self, kind: IncidentKind, commit_us: int | None, lag_s: float) -> None:
        """What the stream is complete to was committed at its source at that time; None: the batch does not tell."""
        if commit_us is not None:
            age_s = (self._clock.now_us() - commit_us) / 1e6
            self._hold(kind, age_s > lag_s, age_s=age_s, lag_s=lag_s)

    def _hold(self, kind: IncidentKind, there: bool, **names: Any) -> None:
        """Open while it is there, with the words of its begin."""
        if not there:
            self.end(kind, self._name)
        elif not self.find(kind, self._name):
            self._note(kind, **names)

    def _note(self, kind: IncidentKind, what: str = "", **names: Any) -> None:
        subject = f"{self._name}:{what}" if what else self._name
        self.note(kind, subject, group=self._name, name=self._name, product=self._product, **names)
