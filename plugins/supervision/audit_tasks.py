"""Builds the tasks that DAGs of audits share: a run's place in the history, and the way to its page."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import TaskGroup
from airflow.sdk.exceptions import AirflowSkipException

from include.audit.expectations.definition import Expectation
from include.audit.expectations.job import verdict_of
from include.audit.history import AuditKind, History
from include.audit.lost import mark_lost, require_judged
from include.metrics.exporter import write_atomically
from include.settings.applications import Alerts
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import mails
from supervision.links import AuditResultLink
from supervision.refusing import NoRetry, refusing
from supervision.spark_operators import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = [
    "AuditJobOperator",
    "AuditVerdictOperator",
    "ExpectationsOperator",
    "begin_run",
    "expectation_tasks",
    "judge_expectation",
    "judged",
    "marked",
    "require",
]

_LOGGER: Final = logging.getLogger(__name__)


class AuditJobOperator(SparkJobOperator):
    """A Spark job of a search audit, with the way to the run's page."""

    operator_extra_links = (AuditResultLink(),)


class AuditVerdictOperator(PythonOperator):
    """A verdict on an audit, with the way to the run's page. Of no use to try again: give `retries=0`."""

    operator_extra_links = (AuditResultLink(),)


class ExpectationsOperator(AuditJobOperator):
    """The expectations of one audit; skipped in a run that was asked for other audits.

    The audit's own job looks at them as well, as its Spark session is there: a job of their own runs only where that
    has left no result, or when this task is tried again, so that whatever is in the way fails this task.

    Args:
        audit: name in the deployment files.
        audits: those that the run was asked for (templated).
        result: file of the result (templated).
        kwargs: `SparkJobOperator`'s.
    """

    template_fields: Sequence[str] = (*AuditJobOperator.template_fields, "audits", "result")

    def __init__(self, *, audit: str, audits: Sequence[str], result: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.audit = audit
        self.audits = audits
        self.result = result

    def execute(self, context: Context) -> None:
        """Run the job to its end, unless its result is there."""
        if self.audit not in self.audits:
            raise AirflowSkipException(f"this run is about {', '.join(self.audits)}")
        if context["ti"].try_number > 1 or not Path(self.result).is_file():
            super().execute(context)


def begin_run(kind: AuditKind, run_id: str | None) -> History:
    """The history that a run's results go to; what an earlier try has left is gone, as are the oldest runs."""
    history = History.of(kind)
    history.begin(run_id or "")
    return history


def judged(kind: AuditKind, report: str | Path) -> dict[str, Any]:
    """The report in a file, as `marked`, if it has judged something; raises as `require`."""
    content, lost = marked(kind, report)
    require(kind, content, lost)
    return content


def marked(kind: AuditKind, report: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The report in a file, and what is lost with the kept run that has judged it.

    What an earlier run on this host has judged is not nothing but lost, and the report says so from now on.
    """
    file = Path(report)
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    lost = mark_lost(kind, content, History.of(kind).runs())
    if lost:
        write_atomically(file, json.dumps(content))
    return content, lost


def require(kind: AuditKind, content: Mapping[str, Any], lost: Mapping[str, str]) -> None:
    """Returns where a report has judged something; the task's log names what nothing is yet of.

    Raises:
        NothingToJudge: it has judged nothing, as nothing is there yet.
        Terminal: something is lost.
    """
    for line in require_judged(kind, content, lost):
        _LOGGER.info(line)


def expectation_tasks(
    audit: str, expectations: Sequence[Expectation], *, checked: Any, alerts: Alerts, assembled: Collection[str]
) -> ExpectationsOperator:
    """The tasks of one audit's expectations, in a group of its name: the job, then a verdict on each expectation.

    Args:
        audit: name in the deployment files.
        expectations: what its topics declare.
        checked: what `search_audit.check_search_audit` has returned.
        alerts: who gets the mails.
        assembled: topics whose documents can be assembled anew.
    """
    several = len({expectation.topic for expectation in expectations}) > 1
    with TaskGroup(group_id="".join(c if c.isalnum() or c in "-_" else "_" for c in audit)):
        job = ExpectationsOperator(
            task_id="expectations",
            audit=audit,
            audits=checked["audits"],
            result=checked[f"result {audit}"],
            name="audit_expectations",
            application=str(PROJECT_ROOT / "spark_apps" / "audit_expectations.py"),
            application_args=checked[f"expectations {audit}"],
            driver_memory="512m",
            execution_timeout=timedelta(hours=6),
        )
        for expectation in expectations:
            verdict = AuditVerdictOperator(
                task_id=f"expect_{expectation.topic}.{expectation.name}" if several else f"expect_{expectation.name}",
                python_callable=refusing(judge_expectation),
                op_kwargs={
                    "result": checked[f"result {audit}"],
                    "topic": expectation.topic,
                    "name": expectation.name,
                    "assembled": expectation.topic in assembled,
                },
                retries=0,
                **mails(alerts, run_next=f"lyrebird audit history --audit {shlex.quote(audit)}"),
            )
            job >> verdict
    return job


def judge_expectation(result: str, topic: str, name: str, *, assembled: bool) -> str:
    """Fails its task when documents are not as expected; the mail names expectation, documents and a command."""
    content = json.loads(Path(result).read_text(encoding="utf-8"))
    verdict = verdict_of(content, topic, name, assembled=assembled)
    if verdict.failed:
        raise NoRetry(verdict.text, verdict.next_command)
    return verdict.text
