"""Makes the pages of what audits have found: the history of each kind, and one run. They show files of this host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from include.audit.history import KEPT_RUNS, AuditKind, History, StoredRun, dag_of
from include.audit.history_rows import HistoryRow, rows_of
from supervision.links import joined
from supervision.pages.frame import framed, link, table, time_text
from supervision.pages.tree_picture import LEGEND, tree_picture

__all__ = ["audit_page", "audits_page"]

_REFRESH_S: Final = 60
_TITLES: Final[dict[AuditKind, str]] = {
    "search": "Search index against topics",
    "document": "Documents against their database",
    "table": "Copies of tables against their databases",
    "join": "Joined topics against their inputs",
    "replay": "Event time against its replay",
    "chain": "Lake against topics",
}
_COLUMNS: Final = ("at", "audit", "verdict", "took", "holds up to", "run")


def audits_page(kinds: Iterable[AuditKind]) -> str:
    """The history of these kinds, the newest runs first."""
    body = Markup("").join(_history(kind) for kind in kinds) or Markup("<p>You may read the DAG of no audit.</p>")
    return framed("Audits", body, path=joined("lyrebird", "audits"), every_s=_REFRESH_S)


def audit_page(kind: AuditKind, run_id: str) -> str:
    """What one run has found, then the history of its kind."""
    kept = History.of(kind).run(run_id)
    content = Markup("<p>Nothing of this run is kept: it has not ended, or is an old one.</p>")
    if kept:
        content = _table("This run", kind, [kept]) + _trees(kept)
    body = Markup("<p>{}. In Airflow: {}</p>{}{}").format(_TITLES[kind], _run(kind, run_id), content, _history(kind))
    return framed(f"Audit {run_id}", body, path=joined("lyrebird", "audits", kind, run_id), every_s=_REFRESH_S)


def _history(kind: AuditKind) -> Markup:
    kept = History.of(kind).runs()
    rows = Markup("<p>None has ended on this host yet.</p>")
    if kept:
        rows = _table(f"The newest {KEPT_RUNS} runs are kept.", kind, kept)
    return Markup("<h2>{}: history</h2>{}").format(_TITLES[kind], rows)


def _table(caption: str, kind: AuditKind, kept: Sequence[StoredRun]) -> Markup:
    return table(
        caption, _COLUMNS, Markup("").join(_row(kind, each, row) for each in kept for row in rows_of(kind, each))
    )


def _trees(kept: StoredRun) -> Markup:
    """A picture of each table's tree, where the run has kept some."""
    kept_reports = kept.report.get("tables", {}).values()
    reports = sorted((f"{each['source']}: {each['table']}", each) for each in kept_reports if each.get("tree"))
    pictures = Markup("").join(
        Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(name, tree_picture(each))
        for name, each in reports
    )
    return Markup("<h2>Trees of sums</h2>{}{}").format(LEGEND, pictures) if pictures else Markup("")


def _row(kind: AuditKind, kept: StoredRun, row: HistoryRow) -> Markup:
    shown_time = f"{row.at[:19].replace('T', ' ')} UTC" if row.at else time_text(kept.ended_us)
    wide = Markup('<span class="wide">{}</span>')
    cells = (row.said, row.effort, wide.format(row.position), wide.format(_run(kind, row.run_id)))
    detail = Markup('<tr class="{}"><td colspan="{}">{}</tr>')
    details = [detail.format("note" if row.incomplete else "incident", len(_COLUMNS), each) for each in row.details]
    if row.next_command:
        details.append(detail.format("incident", len(_COLUMNS), Markup("<code>{}</code>").format(row.next_command)))
    verdict = "clean" if row.clean else "nothing" if row.nothing else "open" if row.incomplete else "found"
    return Markup('<tr class="{}"><td>{}<th scope="row">{}<td>{}</tr>{}').format(
        verdict,
        link(shown_time, "lyrebird", "audits", kind, kept.run_id),
        row.what,
        Markup("<td>").join(cells),
        Markup("").join(details),
    )


def _run(kind: AuditKind, run_id: str) -> Markup:
    """The way to the run on Airflow's own page."""
    return link(run_id, "dags", dag_of(kind), "runs", run_id)
