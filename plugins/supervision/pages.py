"""Plain pages: which applications run here, the end of one's log, audits. Nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from include.settings.environment import state_folder
from supervision.audit_pages import add_audit_pages
from supervision.decisions import incidents
from supervision.page_frame import framed, time_text
from supervision.run_folder import RunFolder, run_folder

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["application_pages", "applications_page", "log_page"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LINES = 2000
_NOTHING: tuple[Any, ...] = (None, "", [], {})


def application_pages() -> FastAPI:
    """The pages as an application for Airflow's api-server; every one asks for Airflow's login."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import HTMLResponse

    pages = FastAPI(dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None)

    @pages.get("/applications", response_class=HTMLResponse)
    def applications() -> str:
        return applications_page()

    @pages.get("/applications/{name}/log", response_class=HTMLResponse)
    def log(name: str) -> str:
        # The name becomes a path: nothing that leads out of the run folder, no matter who asks.
        if not _NAME.fullmatch(name) or name.startswith(".") or not run_folder(name).path.is_dir():
            raise HTTPException(404, "no such application on this host")
        return log_page(name)

    add_audit_pages(pages)
    return pages


def applications_page() -> str:
    """A table of all run folders of this host."""
    runs = state_folder() / "run"
    names = sorted(os.listdir(runs)) if runs.is_dir() else []
    rows = "".join(_row(name, run_folder(name)) for name in names if _NAME.fullmatch(name))
    head = "<tr><th>application<th>state<th>since<th>held by<th>last report</tr>"
    body = f"<table>{head}{rows}</table>" if rows else "<p>Nothing has been started on this host yet.</p>"
    return framed("Applications", body)


def log_page(name: str) -> str:
    """The last lines of one application's log."""
    lines = run_folder(name).log_tail(_LINES)
    body = f"<table>{_row(name, run_folder(name))}</table><pre>{html.escape(chr(10).join(lines))}</pre>"
    return framed(name, body)


def _told(key: str, value: object) -> str:
    """One field of a report as people read it: times with their zone, no braces."""
    if key.endswith("_us") and isinstance(value, int):
        key, value = key.removesuffix("_us"), time_text(value)
    elif isinstance(value, dict):
        value = ", ".join(f"{name} {each}" for name, each in value.items() if each is not None)
    return f'<span class="told"><b>{html.escape(key)}</b> {html.escape(str(value))}</span>'


def _owner(owner: str) -> str:
    """The task that keeps it running, with the way there on Airflow's own page."""
    dag, _, rest = owner.partition("|")
    run, _, task = rest.partition("|")
    task = task.partition("|")[0]
    if not task:
        return html.escape(owner)
    path = "/".join(("/dags", quote(dag, safe=""), "runs", quote(run, safe=""), "tasks", quote(task, safe="")))
    return f'<a href="{path}" target="_top">{html.escape(f"{dag}.{task}")}</a>'


def _row(name: str, folder: RunFolder) -> str:
    seen = folder.observe()
    _, report = folder.progress()
    gave_up = seen.ended.gave_up if seen.ended is not None and seen.ended.rc else None
    if seen.held:
        state = "ending" if seen.stop else "running"
    elif gave_up is not None:
        state = "gave up"
    elif seen.ended is not None:
        state = f"ended: {seen.ended.why or f'status {seen.ended.rc}'}"
    else:
        state = "not running"
    cells = (
        f'<a href="/lyrebird/applications/{name}/log">{html.escape(name)}</a>',
        html.escape(state),
        time_text(seen.run.started_us) if seen.run else "",
        _owner(seen.run.owner) if seen.run else "",
        " ".join(_told(key, value) for key, value in report.items() if key != "incidents" and value not in _NOTHING),
    )
    found = incidents(report)
    if gave_up is not None and gave_up.get("id") not in {each["id"] for each in found}:
        found.append(gave_up)
    return f"<tr><td>{'<td>'.join(cells)}</tr>{''.join(map(_incident, found))}"


def _incident(each: dict[str, Any]) -> str:
    """A row of its own, with the command to run next."""
    text, command = (html.escape(str(each.get(name) or "")) for name in ("text", "fix"))
    return f'<tr class="incident"><td colspan="5">{text}<br><code>{command}</code></tr>'
