"""Pages of what audits have found: the history of each kind, and one run. They read the files of this host."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from include.audit.history import KEPT_RUNS, KINDS, History, KeptRun, Kind, dag_of
from include.audit.history_rows import HistoryRow, rows_of
from supervision.page_frame import framed, time_text
from supervision.tree_picture import LEGEND, tree_picture

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["add_audit_pages", "audit_page", "audits_page"]

_REFRESH_S: Final = 60
_TITLES: Final[dict[Kind, str]] = {
    "search": "Search index against topics",
    "document": "Documents against their database",
    "table": "Copies of tables against their databases",
    "join": "Joined topics against their inputs",
    "replay": "Event time against its replay",
    "chain": "Lake against topics",
}
_HEAD: Final = "<tr><th>at<th>audit<th>verdict<th>took<th>holds up to<th>run</tr>"


def add_audit_pages(pages: FastAPI) -> None:
    """Serve `/audits`, and `/audits/<kind>/<run>` of each run."""
    from fastapi import HTTPException
    from fastapi.responses import HTMLResponse

    @pages.get("/audits", response_class=HTMLResponse)
    def audits() -> str:
        return audits_page()

    @pages.get("/audits/{kind}/{run_id:path}", response_class=HTMLResponse)
    def audit(kind: str, run_id: str) -> str:
        known = next((each for each in KINDS if each == kind), None)
        if known is None:
            raise HTTPException(404, "no such audit")
        return audit_page(known, run_id)


def audits_page() -> str:
    """The history of all kinds, the newest runs first."""
    return framed("Audits", "".join(_history(kind) for kind in KINDS), every_s=_REFRESH_S)


def audit_page(kind: Kind, run_id: str) -> str:
    """What one run has found, then the history of its kind."""
    kept = History.of(kind).run(run_id)
    content = (
        _table(kind, [kept]) + _trees(kept)
        if kept
        else "<p>Nothing of this run is kept: it has not ended, or is an old one.</p>"
    )
    title = f"Audit {run_id}"
    body = f"<p>{_TITLES[kind]}. In Airflow: {_run(kind, run_id)}</p>{content}{_history(kind)}"
    return framed(title, body, every_s=_REFRESH_S)


def _history(kind: Kind) -> str:
    kept = History.of(kind).runs()
    rows = "<p>None has ended on this host yet.</p>"
    if kept:
        rows = f"<p>The newest {KEPT_RUNS} runs are kept.</p>{_table(kind, kept)}"
    return f"<h2>{_TITLES[kind]}: history</h2>{rows}"


def _table(kind: Kind, kept: Sequence[KeptRun]) -> str:
    return f"<table>{_HEAD}{''.join(_row(kind, each, row) for each in kept for row in rows_of(kind, each))}</table>"


def _trees(kept: KeptRun) -> str:
    """A picture of each table's tree, where the run has kept some."""
    kept_reports = kept.report.get("tables", {}).values()
    reports = sorted((f"{each['source']}: {each['table']}", each) for each in kept_reports if each.get("tree"))
    pictures = [
        f"<figure><figcaption>{html.escape(name)}</figcaption>{tree_picture(each)}</figure>" for name, each in reports
    ]
    return f"<h2>Trees of sums</h2>{LEGEND}{''.join(pictures)}" if pictures else ""


def _row(kind: Kind, kept: KeptRun, row: HistoryRow) -> str:
    at = f"{row.at[:19].replace('T', ' ')} UTC" if row.at else time_text(kept.ended_us)
    cells = [html.escape(each) for each in (at, row.what, row.said, row.effort)]
    cells += [f'<span class="wide">{each}</span>' for each in (html.escape(row.position), _run(kind, row.run_id))]
    said = "note" if row.incomplete else "incident"
    found = "".join(f'<tr class="{said}"><td colspan="6">{html.escape(each)}</tr>' for each in row.details)
    if row.next_command:
        found += f'<tr class="incident"><td colspan="6"><code>{html.escape(row.next_command)}</code></tr>'
    verdict = "clean" if row.clean else "nothing" if row.nothing else "open" if row.incomplete else "found"
    return f'<tr class="{verdict}"><td>{"<td>".join(cells)}</tr>{found}'


def _run(kind: Kind, run_id: str) -> str:
    """The way to the run on Airflow's own page."""
    path = "/".join(("/dags", dag_of(kind), "runs", quote(run_id, safe="")))
    return f'<a href="{path}" target="_top">{html.escape(run_id)}</a>'
