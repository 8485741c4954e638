"""Mails about failures, retries and incidents, to be read at 3 a.m.: what, why, what to run next, where the log is.

What a task ends with at one run after another is mailed once, when it is known by its id (`GaveUp.told`).
They go through the connection `smtp_default`. There is no outbox: when the mail server is away beyond the hook's
tries, the mail is lost and the task's log says so; of an incident it is sent again, at the next run if need be.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from include.errors import Terminal
from include.settings.applications import Alerts
from supervision.refusing import GaveUp

__all__ = ["default_args", "incident_mail", "mails"]

_LOGGER: Final = logging.getLogger(__name__)
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
_INCIDENT = """\
<p><b>{{ incident.text.splitlines()[0] | e }}</b></p>
<p>{{ ti.dag_id }}.{{ ti.task_id }}, run {{ run_id | e }}; told once.</p>
<p><b>Run next</b></p>
<pre>{{ incident.fix | e }}</pre>
<p><b>Task log</b><br><a href="{{ ti.log_url }}">{{ ti.log_url | e }}</a></p>
"""


class _EndMail(SmtpNotifier):
    """About a task that ends: what is known to be told already is not mailed again."""

    def notify(self, context: Any) -> None:
        """Send it; raises what the mail server's connection raises."""
        ended = context.get("exception")
        if isinstance(ended, GaveUp) and ended.told:
            _LOGGER.info("not mailed: an earlier run has told it")
            return
        super().notify(context)
        if isinstance(ended, GaveUp) and ended.on_mailed is not None:
            ended.on_mailed()


def mails(alerts: Alerts, *, run_next: str) -> dict[str, Any]:
    """The two callbacks of a task.

    Args:
        alerts: sender and receivers.
        run_next: the command for the person who reads it; a Jinja template with the task's context. An exception with
            a command of its own (`run_next`) says that instead.
    """
    failed = _mail(
        alerts,
        subject=f"[lyrebird] FAILED {_WHAT}: {_FIRST_LINE}",
        what_happened="failed at try {{ ti.try_number }}, and is not tried again.",
        run_next=run_next,
    )
    retried = _mail(
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


def incident_mail(alerts: Alerts) -> SmtpNotifier:
    """About something that a running application reports: called with the task's context and its `incident`.

    The incident has `kind`, `text` and `fix` (a command). Raises what the mail server's connection raises.
    """
    return _notifier(
        SmtpNotifier,
        alerts,
        f"[lyrebird] INCIDENT {{{{ incident.kind }}}}: {{{{ incident.text.splitlines()[0] | {_CUT} }}}}",
        _INCIDENT,
    )


def _notifier(kind: type[SmtpNotifier], alerts: Alerts, subject: str, html: str) -> SmtpNotifier:
    return kind(
        smtp_conn_id="smtp_default",
        from_email=alerts.from_,
        to=list(alerts.to),
        subject=subject,
        html_content=html,
    )


def _mail(alerts: Alerts, *, subject: str, what_happened: str, run_next: str) -> SmtpNotifier:
    if any(mark in subject + run_next for mark in ("\n", "\r")):
        raise Terminal("a mail's subject and next command are one line each", run_next=run_next)
    body = _BODY.format(reason=_REASON, what=_WHAT, what_happened=what_happened, own=_OWN, run_next=run_next)
    return _notifier(_EndMail, alerts, subject, body)
