"""Makes the pages of applications: which run on this host, and the end of one's log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup, escape

from include.settings.environment import state_folder
from supervision.decisions import incidents
from supervision.links import joined
from supervision.pages.frame import framed, link, table, time_text
from supervision.run_folder import ObservedFolder, Run, RunFolder, run_folder

__all__ = ["application_folder", "applications_page", "held_by", "log_page"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LINES: Final = 2000
_UNSAID: Final[tuple[Any, ...]] = (None, "", [], {})
_COLUMNS: Final = ("application", "state", "since", "held by", "last report")


def application_folder(name: str) -> RunFolder | None:
    """The run folder of an application, None without one. The name may be anything: nothing leads out of the folder."""
    if not _NAME.fullmatch(name) or name.startswith("."):
        return None
    folder = run_folder(name)
    return folder if folder.path.is_dir() else None


def held_by(folder: RunFolder) -> str | None:
    """The DAG that started its newest generation; None where no DAG has, as when somebody runs it by hand."""
    run = folder.observe().run
    return _task_of(run)[0] if run else None


def applications_page(may_read: Callable[[str | None], bool]) -> str:
    """A table of the applications of this host whose DAG (`held_by`) may be read."""
    runs = state_folder() / "run"
    folders = {name: application_folder(name) for name in sorted(os.listdir(runs) if runs.is_dir() else ())}
    rows = Markup("").join(_row(name, each) for name, each in folders.items() if each and may_read(held_by(each)))
    body = table("Applications of this host whose DAGs you may read", _COLUMNS, rows)
    if not rows:
        body = Markup("<p>Nothing that you may read has been started on this host yet.</p>")
    return framed("Applications", body, path=joined("lyrebird", "applications"))


def log_page(name: str) -> str:
    """The last lines of one application's log."""
    folder, path = run_folder(name), joined("lyrebird", "applications", name, "log")
    body = Markup(
        '{}<h2>Log: the last {} lines at most</h2><p><a href="{}#end">Newest line</a></p><pre>{}</pre><p id="end"></p>'
    ).format(
        table("This application", _COLUMNS, _row(name, folder)),
        f"{_LINES:,}",
        path,
        "\n".join(folder.log_tail(_LINES)),
    )
    return framed(name, body, path=path)


def _told(key: str, value: object) -> Markup:
    """One field of a report as people read it: times with their zone, no braces."""
    if key.endswith("_us") and isinstance(value, int):
        key, value = key.removesuffix("_us"), time_text(value)
    return Markup('<span class="told"><b>{}</b> {}</span>').format(key, _words(value))


def _words(value: object) -> str:
    """A value of a report; parts of parts stand apart by semicolons."""
    if isinstance(value, dict):
        parts = any(isinstance(each, dict) for each in value.values())
        said = (f"{name} {_words(each)}" for name, each in value.items() if each not in _UNSAID)
        return ("; " if parts else ", ").join(said)
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return f"{value:,}" if type(value) is int else str(value)


def _task_of(run: Run) -> tuple[str | None, str, str]:
    """DAG, run and task of an owner; the DAG is None in one that names no task."""
    dag, run_id, task, *_ = (*run.owner.split("|"), "", "", "")
    return (dag, run_id, task) if dag and task else (None, "", "")


def _owner(run: Run) -> Markup:
    """The task that keeps it running, with the way there on Airflow's own page."""
    dag, run_id, task = _task_of(run)
    if dag is None:
        return escape(run.owner)
    return link(f"{dag}.{task}", "dags", dag, "runs", run_id, "tasks", task)


def _state(seen: ObservedFolder) -> str:
    if seen.held:
        waits = seen.run is not None and seen.run.waits
        return "ending" if seen.stop else "down, tried again later" if waits else "running"
    if seen.ended is None:
        return "not running"
    if seen.ended.rc and seen.ended.gave_up is not None:
        return "gave up"
    return f"ended: {seen.ended.why or f'status {seen.ended.rc}'}"


def _well(seen: ObservedFolder) -> bool:
    """Whether it runs, or has ended by itself or as asked, without an error."""
    if seen.held:
        return seen.stop or seen.run is None or not seen.run.waits
    return seen.ended is not None and not seen.ended.rc and seen.ended.why in (None, "asked")


def _row(name: str, folder: RunFolder) -> Markup:
    seen = folder.observe()
    _, report = folder.progress()
    cells = (
        _state(seen) if _well(seen) else Markup('<span class="down">{}</span>').format(_state(seen)),
        time_text(seen.run.started_us) if seen.run else "",
        _owner(seen.run) if seen.run else "",
        Markup(" ").join(
            _told(key, value) for key, value in report.items() if key != "incidents" and value not in _UNSAID
        ),
    )
    shown_incidents = incidents(report)
    gave_up = seen.ended.gave_up if seen.ended is not None and seen.ended.rc else None
    if gave_up is not None and gave_up.get("id") not in {each["id"] for each in shown_incidents}:
        shown_incidents.append(gave_up)
    if seen.held and (down := folder.down()[1]):
        shown_incidents.append(down)
    return Markup('<tr class="application"><th scope="row">{}<td>{}</tr>{}').format(
        link(name, "lyrebird", "applications", name, "log"),
        Markup("<td>").join(cells),
        Markup("").join(map(_incident, shown_incidents)),
    )


def _incident(each: dict[str, Any]) -> Markup:
    """A row of its own, with the command to run next."""
    severity, text, command = (each.get(name) or "" for name in ("severity", "text", "fix"))
    return Markup('<tr class="incident"><td colspan="{}">{}{}<br><code>{}</code></tr>').format(
        len(_COLUMNS), f"{severity}: " if severity else "", text, command
    )
