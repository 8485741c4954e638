"""Reads, for the summary, what an audit's DAG run has found, as its page and `lyrebird audit history` have it."""

from __future__ import annotations

from typing import Any

from demo.part_summary import PartSummary
from include.audit.history import History, Kind

__all__ = ["found"]


def found(kind: Kind, run_id: str) -> PartSummary:
    """A line with the verdict and the position that it is of, then what is not clean; nothing kept is not good."""
    from include.audit.history_rows import rows_of

    kept = History.of(kind).run(run_id)
    rows = rows_of(kind, kept) if kept is not None else []
    clean = sum(row.clean for row in rows)
    positions = sorted({row.position for row in rows if row.position})
    at = f", {'; '.join(positions)}" if positions else ""
    lines = [f"audit of {kind}s: {clean} of {len(rows)} clean{at}" if rows else f"audit of {kind}s: nothing was kept"]
    for row in rows:
        if not row.clean:
            lines += [f"  {row.what}: {row.said}", *(f"    {each}" for each in row.details)]
    values: dict[str, Any] = {"audited": len(rows), "clean": clean, "positions": positions}
    return PartSummary(tuple(lines), {f"{kind}_audit": values}, bool(rows) and clean == len(rows))
