"""Mails about failures, retries and incidents, to be read at 3 a.m.: what, why, what to run next, where the log is.

What a task ends with at one run after another is mailed once, when it is known by its id (`NoRetry.told`). Each is put
into the outbox with its words complete, and goes out from there (`posting`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import jinja2
from airflow.configuration import conf
from jinja2.sandbox import SandboxedEnvironment

from include.errors import Terminal
from include.incidents.kind import MEANINGS
from include.outbox.folder import Mail
from include.settings.applications import Alerts
from supervision.posting import ensure_sender, post
from supervision.refusing import NoRetry
from supervision.run_folder import RunFolder

__all__ = ["EndMail", "default_args", "incident_mail", "mails", "tell"]

_LOGGER: Final = logging.getLogger(__name__)
# A name that is missing must not keep the mail back. Texts are escaped where they are put in.
_TEMPLATES: Final = SandboxedEnvironment(undefined=jinja2.ChainableUndefined, autoescape=False)
# An exception may be missing (its worker died) and may be without text.
_REASON = "((exception | default('', true) | string).strip() or 'no reason given: the worker may have died')"
# Its own next command, where the error has one.
_OWN = "((exception | default('', true)).run_next | default('', true))"
# Whole words of it: a telephone shows half of that.
_CUT = "truncate(110, false, '…', 0)"
_FIRST_LINE = f"{{{{ {_REASON}.splitlines()[0] | {_CUT} }}}}"
_WHAT = "{{ ti.dag_id }}.{{ ti.task_id }}{% if ti.map_index >= 0 %}[{{ ti.map_index }}]{% endif %}"
_TRY = "try {{ ti.try_number }} of {{ (ti.max_tries | default(0, true)) + 1 }}"

_BODY = """\
<p><b>{what}</b> {what_happened}<br>run {{{{ run_id | e }}}}</p>
<p><b>Why</b></p>
<pre style="white-space:pre-wrap">{{{{ {reason} | e }}}}</pre>
<p><b>Run next</b></p>
<pre>{{% if {own} %}}{{{{ {own} | e }}}}{{% else %}}{run_next}{{% endif %}}</pre>
<p><b>Task log</b><br><a href="{{{{ ti.log_url }}}}">{{{{ ti.log_url | e }}}}</a></p>
{{% if params %}}<p><b>Params</b><br><code>{{{{ params | string | e }}}}</code></p>{{% endif %}}
"""
_INCIDENT_SUBJECT = f"[lyrebird] INCIDENT {{{{ incident.kind }}}}: {{{{ incident.text.splitlines()[0] | {_CUT} }}}}"
_INCIDENT = """\
<p><b>{{ incident.text.splitlines()[0] | e }}</b></p>
<p>{{ application | e }}, kept running by {{ dag | e }}.{{ task | e }}, run {{ run | e }}; told once.</p>
{% if incident.severity %}<p><b>{{ incident.severity | e }}</b>: {{ meaning | e }}.</p>
{% endif %}<p><b>Run next</b></p>
<pre>{{ incident.fix | e }}</pre>
{% if incident.page %}<p><b>Manual</b><br>docs/{{ incident.page | e }}</p>
{% endif %}<p><b>Task log</b><br><a href="{{ task_url | e }}">{{ task_url | e }}</a></p>
"""


@dataclass(frozen=True)
class EndMail:
    """A task's callback: puts a mail about its end into the outbox.

    Attributes:
        what: `FAILED` or `retry`.
        alerts: sender and receivers.
        subject, html: Jinja templates with the task's context.
    """

    what: str
    alerts: Alerts
    subject: str
    html: str

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Called by Airflow, in the task's process or, where that has died, in the DAG processor.

        What is known to be told already is not mailed again. Raises OSError where the disk does not take it.
        """
        ended = context.get("exception")
        if isinstance(ended, NoRetry) and ended.told:
            _LOGGER.info("not mailed: an earlier run has told it")
            return
        ti = context["ti"]
        # Its id differs from try to try, and from a run that was deleted to the next of its name.
        marks = (getattr(ti, "id", ""), ti.map_index, ti.try_number)
        identity = f"{self.what} {ti.dag_id}.{ti.task_id} {context.get('run_id')} {' '.join(map(str, marks))}"
        post(_mail(identity, self.alerts, self.subject, self.html, context))
        if isinstance(ended, NoRetry) and ended.on_mailed is not None:
            ended.on_mailed()
        ensure_sender()


def mails(alerts: Alerts, *, run_next: str) -> dict[str, Any]:
    """The two callbacks of a task.

    Args:
        alerts: sender and receivers.
        run_next: the command for the person who reads it; a Jinja template with the task's context. An exception with
            a command of its own (`run_next`) says that instead.
    """
    failed = _end_mail(
        "FAILED",
        alerts,
        subject=f"[lyrebird] FAILED {_WHAT}: {_FIRST_LINE}",
        what_happened="failed at try {{ ti.try_number }}, and is not tried again.",
        run_next=run_next,
    )
    retried = _end_mail(
        "retry",
        alerts,
        subject=f"[lyrebird] retry {_WHAT} ({_TRY}): {_FIRST_LINE}",
        what_happened=f"failed at {_TRY}, and will be tried again by itself.",
        run_next=run_next,
    )
    return {"on_failure_callback": failed, "on_retry_callback": retried}


def default_args(alerts: Alerts, *, run_next: str) -> dict[str, Any]:
    """What every DAG of the project gives to its tasks: owner, retries with back-off, mails."""
    return {
        "owner": "lyrebird",
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=5),
        **mails(alerts, run_next=run_next),
    }


def incident_mail(alerts: Alerts, application: str, owner: str, incident: Mapping[str, Any]) -> Mail:
    """About something that a running application reports.

    Args:
        alerts: sender and receivers.
        application: its name.
        owner: who keeps it running, as run.json has it: dag|run|task|map_index.
        incident: its `id`, `kind`, `text`, `fix` (a command), `severity` and `page`; of an older application not all.
    """
    dag, run, task = (*owner.split("|"), "", "", "")[:3]
    path = "/".join(("dags", quote(dag, safe=""), "runs", quote(run, safe=""), "tasks", quote(task, safe="")))
    names = {
        "incident": {
            **{name: str(incident.get(name) or "") for name in ("severity", "page")},
            **{name: str(incident.get(name) or "no word of it") for name in ("kind", "text", "fix")},
        },
        "meaning": MEANINGS.get(str(incident.get("severity")), "see docs/incidents.md"),
        "application": application,
        "dag": dag,
        "run": run,
        "task": task,
        "task_url": f"{conf.get('api', 'base_url', fallback='http://localhost:8080').rstrip('/')}/{path}",
    }
    return _mail(f"INCIDENT {application} {incident['id']}", alerts, _INCIDENT_SUBJECT, _INCIDENT, names)


def tell(folder: RunFolder, alerts: Alerts | None, incidents: Sequence[Mapping[str, Any]]) -> bool:
    """Put a mail about each into the outbox, once; without receivers the log alone says it. Whether any was put there.

    Never raises: what the disk does not take is logged, and not noted as told.
    """
    told, posted = set(folder.told()), False
    run = folder.observe().run
    for incident in incidents:
        if incident["id"] in told:
            continue
        _LOGGER.error("%s\nrun next: %s", incident.get("text"), incident.get("fix"))
        try:
            if alerts is not None:
                post(incident_mail(alerts, folder.path.name, run.owner if run else "", incident))
                posted = True
            folder.remember_told(str(incident["id"]))
        except OSError:
            _LOGGER.exception("no mail about it could be written; it is tried again")
    return posted


def _mail(identity: str, alerts: Alerts, subject: str, html: str, names: Mapping[str, Any]) -> Mail:
    words = [_TEMPLATES.from_string(template).render(names) for template in (subject, html)]
    return Mail(identity, alerts.from_, tuple(alerts.to), *words)


def _end_mail(what: str, alerts: Alerts, *, subject: str, what_happened: str, run_next: str) -> EndMail:
    if any(mark in subject + run_next for mark in ("\n", "\r")):
        raise Terminal("a mail's subject and next command are one line each", run_next=run_next)
    body = _BODY.format(reason=_REASON, what=_WHAT, what_happened=what_happened, own=_OWN, run_next=run_next)
    return EndMail(what, alerts, subject, body)
