"""Opens and ends incidents of a running indexer, each mailed once: a lost index, one that takes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from include.clock import Clock, iso
from include.errors import LyrebirdError
from include.incidents.kind import IncidentKind
from include.incidents.ledger import IncidentLedger
from include.index.mapping.declared import drift
from include.index.server.port import IndexInfo
from include.metrics.progress import RunFolder

__all__ = ["LOST", "OLD", "STUCK", "UNLIKE", "WAITS", "IndexIncidents"]

LOST: Final = IncidentKind("lost", "index", "error", "indexing.md#recover-a-lost-index",
    opens="an index that the application has to write, a [generation](glossary.md#generation), is gone",
    ends="it is there, or is to be written no more", text="{index} is to be fed and its index is gone.",
    fix="`lyrebird index rebuild {alias}`")  # fmt: skip
OLD: Final = IncidentKind("old", "index", "error", "indexing.md#what-stops-the-indexer",
    opens="a generation stood still for longer than its topic keeps deletions, or would begin on a topic that has "
          "grown, so it is written no more",
    ends="it is to be written no more", text="{index} is written no more: {error}",
    fix="`lyrebird index rebuild {alias}`")  # fmt: skip
STUCK: Final = IncidentKind("stuck", "index", "error", "indexing.md#change-a-mapping-rebuild-and-promote",
    opens="a generation is behind and cannot go on by itself", ends="it goes on, or is to be written no more",
    text="{index} is behind and cannot go on: {error}",
    fix="`lyrebird index generations {alias}` says why.")  # fmt: skip
UNLIKE: Final = IncidentKind("unlike", "index", "warning", "indexing.md#change-a-mapping-rebuild-and-promote",
    opens="the index that serves was made by another mapping file", ends="one that is as declared serves",
    text="{index} serves and is not as its mapping file declares: {differs}.",
    fix="`lyrebird index rebuild {alias}`, then `lyrebird index promote {alias}`.")  # fmt: skip
WAITS: Final = IncidentKind("waits", "index", "warning", "indexing.md#how-the-indexer-writes",
    opens="a server has been away or full for five minutes", ends="the indexer goes on",
    text="{alias} is not indexed since {since}, nothing is lost: {error}",
    fix="Bring it back, or make room: `lyrebird status`.")  # fmt: skip
_SHOWN: Final = 3
_LONG_US: Final = 300_000_000


class IndexIncidents(IncidentLedger):
    """Open incidents of one application; their ids outlive restarts, so that each is mailed once."""

    def __init__(self, alias: str, folder: RunFolder, clock: Clock) -> None:
        super().__init__(folder, clock)
        self._alias = alias

    def lost(self, names: Collection[str]) -> None:
        """These generations and no others are to be fed and are gone."""
        self._only(LOST, {name: {} for name in names})

    def old(self, reasons: Mapping[str, LyrebirdError]) -> None:
        """These generations and no others lack deletions, see `TooOld`."""
        self._only(OLD, {name: {"error": error} for name, error in reasons.items()})

    def stuck(self, reasons: Mapping[str, LyrebirdError]) -> None:
        """These generations and no others are behind and cannot go on."""
        self._only(STUCK, {name: {"error": error} for name, error in reasons.items()})

    def unlike(self, info: IndexInfo, declared: Mapping[str, Any]) -> None:
        """This generation serves; it is an incident while its mapping is not the declared one."""
        lines = drift(info, declared)
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        self._only(UNLIKE, {info.name: {"differs": "; ".join(lines[:_SHOWN]) + more}} if lines else {})

    def waits(self, reason: LyrebirdError) -> None:
        """Nothing goes on for this reason; an incident from five minutes on, until `goes_on`."""
        before = self.find(WAITS, self._alias)
        since_us = before.get("at_us", self._clock.now_us())
        # One without a time to open was open when a version before 0.1 kept it.
        opens_us, since = since_us + _LONG_US if "opens_us" in before or not before else 0, iso(since_us)
        self.note(WAITS, self._alias, opens_us=opens_us, alias=self._alias, since=since, error=reason)

    def goes_on(self) -> None:
        """What there was to do is done."""
        self.only(WAITS, ())

    def _only(self, kind: IncidentKind, names: Mapping[str, Mapping[str, Any]]) -> None:
        self.only(kind, names.keys())
        for index, more in names.items():
            self.note(kind, index, alias=self._alias, index=index, **more)
