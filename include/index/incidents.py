"""What a person must know of a running indexer, once for as long as it lasts: a lost index, one that takes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from include.clock import Clock, iso
from include.errors import LyrebirdError
from include.index.mapping.declared import drift
from include.index.server.port import IndexInfo
from include.metrics.incidents import IncidentLedger, Keeper

__all__ = ["IncidentKind", "IndexIncidents"]

IncidentKind = Literal["lost", "old", "stuck", "unlike", "waits"]
"""lost: a generation is to be fed and its index is gone. old: one that stood still for longer than its topic keeps
deletions is written no more. stuck: one that is behind cannot go on by itself. unlike: the one that serves was made by
another mapping file. waits: a server is away or full, for minutes."""
_SHOWN: Final = 3
_LONG_US: Final = 300_000_000


class IndexIncidents:
    """Open incidents of one application; their ids outlive restarts, so that each is mailed once."""

    def __init__(self, alias: str, keeper: Keeper, clock: Clock) -> None:
        self._alias = alias
        self._ledger = IncidentLedger(keeper, clock)
        self._clock = clock
        self._waits_since_us: int | None = None

    def lost(self, names: Collection[str]) -> None:
        """These generations and no others are to be fed and are gone."""
        fix = f"lyrebird index rebuild {self._alias}"
        self._set("lost", {name: f"{name} is to be fed and its index is gone." for name in names}, fix)

    def old(self, reasons: Mapping[str, LyrebirdError]) -> None:
        """These generations and no others stood still for too long."""
        fix = f"lyrebird index rebuild {self._alias}"
        self._set("old", {name: f"{name} is written no more: {error}" for name, error in reasons.items()}, fix)

    def stuck(self, reasons: Mapping[str, LyrebirdError]) -> None:
        """These generations and no others are behind and cannot go on."""
        fix = f"lyrebird index generations {self._alias}"
        self._set(
            "stuck", {name: f"{name} is behind and cannot go on: {error}" for name, error in reasons.items()}, fix
        )

    def unlike(self, info: IndexInfo, declared: Mapping[str, Any]) -> None:
        """This generation serves; it is an incident while its mapping is not the declared one."""
        lines = drift(info, declared)
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        text = f"{info.name} serves and is not as its mapping file declares: {'; '.join(lines[:_SHOWN])}{more}."
        self._set("unlike", {info.name: text} if lines else {}, f"lyrebird index rebuild {self._alias}")

    def waits(self, reason: LyrebirdError) -> None:
        """Nothing goes on for this reason; an incident from five minutes on, until `goes_on`."""
        now_us = self._clock.now_us()
        if self._waits_since_us is None:
            self._waits_since_us = now_us
        if now_us - self._waits_since_us >= _LONG_US:
            text = f"{self._alias} is not indexed since {iso(self._waits_since_us)}, nothing is lost: {reason}"
            self._set("waits", {self._alias: text}, "lyrebird status")

    def goes_on(self) -> None:
        """What there was to do is done."""
        self._waits_since_us = None
        self._set("waits", {}, "")

    def open(self) -> list[dict[str, Any]]:
        """As progress.json has them, the oldest first."""
        return [
            {"id": each.id, "kind": each.kind, "at_us": each.at_us, "text": each.text, "fix": each.fix}
            for each in self._ledger.all()
        ]

    def _set(self, kind: IncidentKind, texts: Mapping[str, str], fix: str) -> None:
        keys = {f"{kind}:{name}": text for name, text in texts.items()}
        for key in self._ledger.keys(f"{kind}:"):
            if key not in keys:
                self._ledger.end(key)
        for key, text in keys.items():
            self._ledger.note(key, kind, "", text, fix)
        self._ledger.save()
