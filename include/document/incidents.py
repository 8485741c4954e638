"""Opens an assembler's incident when rows that documents show have changed, and signals told of none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from include.clock import Clock
from include.incidents.kind import IncidentKind
from include.incidents.ledger import IncidentLedger
from include.metrics.progress import RunFolder

__all__ = ["UNHEARD", "DocumentIncidents"]

UNHEARD: Final = IncidentKind("unheard", "documents", "error", "documents.md#say-which-changes-count",
    opens="a row is changed or deleted whose table documents show, and changes of it are no signal",
    ends="the table is named under `signals` or `corrected`",
    text="{count:,} rows of {table} were changed or deleted, which signals nothing: documents of {topic} may show them "
         "as they were. Name {table} under `signals` or `corrected` of the entry in `documents`",
    fix="Name the table, then write old documents again: `lyrebird audit documents {topic} --repair`.")  # fmt: skip


class DocumentIncidents(IncidentLedger):
    """The open incidents of one topic's assembler; `after_batch` once a batch."""

    def __init__(self, topic: str, unheard: Collection[str], folder: RunFolder, clock: Clock) -> None:
        """`unheard`: looked-up tables whose changes signal nothing; incidents of others are over."""
        super().__init__(folder, clock)
        self._topic = topic
        self.only(UNHEARD, [f"{topic}:{table}" for table in unheard])
        self.save()

    def after_batch(self, unheard: Mapping[str, int]) -> list[dict[str, Any]]:
        """The open ones, as progress.json has them.

        `unheard`: table → changes and deletes in the batch that signalled nothing.
        """
        for table, count in unheard.items():
            topic = self._topic
            self.note(UNHEARD, f"{topic}:{table}", group=topic, adds=count, topic=topic, table=table)
        return self.open()
