"""### Audit the search index.

**Purpose.** Proves that every document of a topic is in its index, by key. An audit that finds something fails the run.

**When it runs.** Every night at 02:30 UTC, and whenever a person starts it; when it is new, not before the next night.

**Must not run beside.** Another search audit: one run at a time. It runs beside the indexer by design.

**When it fails.** In `audit`: the audit could not be made (a server away); it is tried again by itself, from its start.
In `verdict`: there are findings; the mail holds their count and the command that shows them. It is not tried again.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param, task

from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from include.settings.names import declared
from supervision.alerts import default_args, mails
from supervision.first_tasks import check_audit, judge_audit
from supervision.refusing import refusing
from supervision.spark_operators import SparkJobOperator

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
AUDITS = declared(deployment, "audits")
SHOW = f"lyrebird audit search {{{{ (params.audits or {AUDITS}) | join(' && lyrebird audit search ') }}}}"

with DAG(
    dag_id="audit_search",
    schedule=CronTriggerTimetable("30 2 * * *", timezone="UTC", run_immediately=False),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "search"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird status"),
    params={
        "audits": Param(
            [],
            type="array",
            items={"type": "string", "enum": AUDITS},
            title="Audits",
            description="Names in the deployment files; none means all.",
        ),
    },
):
    checked = task(refusing(check_audit), task_id="check", multiple_outputs=True)(audits=AUDITS)
    audit = SparkJobOperator(
        task_id="audit",
        name="audit_search",
        application=str(PROJECT_ROOT / "spark_apps" / "audit_search.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        execution_timeout=timedelta(hours=6),
    )
    verdict = task(
        refusing(judge_audit),
        task_id="verdict",
        retries=0,
        **mails(ALERTS, run_next=SHOW),
    )(report=checked["report"])
    audit >> verdict
