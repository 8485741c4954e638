"""Removal of what is older than a table's time travel: files that no version of these days has, and earlier logs.

A file that a crashed batch left is removed so, too, once it is that old: younger ones may belong to a version that is
being written. With `time_travel_days: 0` files of a day stay all the same, for readers that run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from include.lake.tables.definition import TableEntry
from include.lake.tables.delta_log import DeltaLog
from include.lake.tables.generation import Generations, generation_folder

__all__ = ["MaintenanceResult", "maintained"]

_LEAST_HOURS: Final = 24.0


@dataclass(frozen=True)
class MaintenanceResult:
    """What became of a table: files removed, or that would be."""

    topic: str
    removed: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def maintained(
    entry: TableEntry, topic: str, generations: Generations, log_of: Callable[[str], DeltaLog], *, dry_run: bool
) -> MaintenanceResult:
    """Maintain the generations of a table that are read and written; others stay as somebody left them."""
    removed = 0
    for number in sorted({generations.read, generations.writing}):
        log = log_of(generation_folder(entry.prefix, topic, number))
        if log.state() is not None:
            removed += len(log.expire(max(_LEAST_HOURS, entry.time_travel_days * 24), dry_run=dry_run))
    return MaintenanceResult(topic, removed)
