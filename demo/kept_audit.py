"""Reads, for the summary, what an audit's DAG run has found, as its page and `lyrebird audit history` have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demo.part_summary import PartSummary
from include.audit.history import AuditKind, History, StoredRun, kind_of

if TYPE_CHECKING:
    from include.audit.history_rows import HistoryRow

__all__ = ["found", "judged_nothing"]


def found(kind: AuditKind, run_id: str) -> PartSummary:
    """A line with the verdict and the position that it is of, then what is not clean; nothing judged is not good.

    Of a run that came before there was something to judge, a later one speaks.
    """
    said = _said(kind, run_id)
    rows = [row for row in said if not row.nothing]
    clean = sum(row.clean for row in rows)
    positions = sorted({row.position for row in rows if row.position})
    at = f", {'; '.join(positions)}" if positions else ""
    none = "nothing was judged" if said else "nothing was kept"
    lines = [f"audit of {kind}s: {clean} of {len(rows)} clean{at}" if rows else f"audit of {kind}s: {none}"]
    for row in said:
        if not row.clean:
            lines += [f"  {row.what}: {row.said}", *(f"    {each}" for each in row.details)]
    values: dict[str, Any] = {"audited": len(rows), "clean": clean, "positions": positions}
    return PartSummary(tuple(lines), {f"{kind}_audit": values}, bool(rows) and clean == len(rows))


def judged_nothing(dag: str, run_id: str) -> bool:
    """Whether the run of an audit's DAG, or the later one that speaks for it, has found nothing to judge."""
    kind = kind_of(dag)
    said = _said(kind, run_id) if kind else []
    return bool(said) and all(row.nothing for row in said)


def _said(kind: AuditKind, run_id: str) -> list[HistoryRow]:
    from include.audit.history_rows import rows_of

    said: list[HistoryRow] = []
    for run in _since(kind, run_id):
        said = rows_of(kind, run)
        if not all(row.nothing for row in said):
            break
    return said


def _since(kind: AuditKind, run_id: str) -> list[StoredRun]:
    """The kept run, then those after it."""
    kept = History.of(kind).runs()
    until = next((number for number, run in enumerate(kept) if run.run_id == run_id), -1)
    return kept[until::-1] if until >= 0 else []
