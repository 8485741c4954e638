"""Plain transactions straight from raw events, where the event loop was compiled: see `_events.pyi`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from include.record.position import BinlogPosition
from include.source.binlog.step import LoggedText, PlainRun, RowsEvent, SourceTransaction
from include.source.native import WHY_NOT

if TYPE_CHECKING:
    from include.source.native._events import PlainGroups

__all__ = ["plain_groups"]


def plain_groups(known: Mapping[bytes, object], memory_bytes: int) -> PlainGroups[PlainRun, SourceTransaction] | None:
    """What takes them; None where nothing is compiled. `known`, `memory_bytes`: see there."""
    if WHY_NOT:
        return None
    from include.source.native._events import PlainGroups

    try:
        return PlainGroups(known, PlainRun, SourceTransaction, RowsEvent, BinlogPosition, LoggedText, memory_bytes)
    except ValueError:
        # Its classes have other slots in this Python.
        return None
