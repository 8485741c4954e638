"""What a person must know of an assembler while it runs: documents show rows that changed, and signals told of none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from include.clock import Clock
from include.metrics.incidents import IncidentLedger, Keeper

__all__ = ["DocumentIncidents"]


class DocumentIncidents:
    """The open incidents of one topic's assembler; `after_batch` once a batch."""

    def __init__(self, topic: str, unheard: Collection[str], keeper: Keeper, clock: Clock) -> None:
        """`unheard`: looked-up tables whose changes signal nothing; incidents of others are over."""
        self._topic, self._ledger = topic, IncidentLedger(keeper, clock)
        for key in self._ledger.keys("unheard:"):
            if key not in {self._key(table) for table in unheard}:
                self._ledger.end(key)
        self._ledger.save()

    def after_batch(self, unheard: Mapping[str, int]) -> list[dict[str, Any]]:
        """The open ones, as progress.json has them.

        `unheard`: table → changes and deletes in the batch that signalled nothing.
        """
        for table, more in unheard.items():
            key = self._key(table)
            found = self._ledger.find(key)
            count = more + (found["count"] if found is not None else 0)
            self._ledger.note(
                key,
                "unheard",
                self._topic,
                f"{count:,} rows of {table} were changed or deleted, which signals nothing: documents of {self._topic} "
                f"may show them as they were. Name {table} under `signals` or `corrected` of the entry in `documents`",
                f"lyrebird audit documents {self._topic} --repair",
                count=count,
            )
        self._ledger.save()
        return [each.to_json() for each in self._ledger.all()]

    def _key(self, table: str) -> str:
        return f"unheard:{self._topic}:{table}"
