"""Definitions of the kinds of a table's incidents; `StreamIncidents` opens these."""

from __future__ import annotations

from typing import Final

from include.incidents.stream import lag_kind, refused_kind

__all__ = ["LAG", "REFUSED"]

_STAGE, _PAGE = "tables", "tables.md#what-is-guaranteed"
REFUSED: Final = refused_kind(_STAGE, _PAGE, "Look at them, mend the writer: `lyrebird table status {topic}`.")
LAG: Final = lag_kind(_STAGE, _PAGE, "See what is slow, or stands: `lyrebird table status`, `lyrebird status`.")
