"""### Audit joins.

**Purpose.** Proves that a joined topic holds what SQL makes of its inputs, output by output, at the input offsets that
the join spoke for last. An audit that finds something fails the run.

**When it runs.** Every night at 03:30 UTC, and whenever a person starts it; when it is new, not before the next night.

**Must not run beside.** Another audit of joins: one run at a time. It runs beside the joins by design.

**When it fails.** In `audit`: it could not be made (a server away, a join that is changing, a topic that is gone); it
is tried again by itself, from its start. In `verdict`: there are findings; the mail names some outputs and the command
that shows more. What each run has found is kept: the link *Audit result* leads there.

**When nothing is there yet.** A join that has not begun is named, and the others are judged. Where none has, `verdict`
is skipped, and nobody gets a mail. What an earlier run has judged is not skipped: it is lost, and the run fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.audit.definition import audit_names
from include.audit.joins.run_params import JoinAuditRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditJobOperator, AuditVerdictOperator
from supervision.join_audit import check_join_audit, judge_join_audit
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
AUDITS = audit_names(deployment, "join")
SHOW = f"lyrebird audit join {{{{ (params.audits or {AUDITS}) | join(' && lyrebird audit join ') }}}}"

with DAG(
    dag_id="audit_join",
    auto_register=bool(AUDITS),
    schedule=only_at("30 3 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "join"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird status"),
    params=params_of(JoinAuditRun, audits=AUDITS),
):
    checked = task(refusing(check_join_audit), task_id="check", multiple_outputs=True)(audits=AUDITS)
    audit = AuditJobOperator(
        task_id="audit",
        name="audit_join",
        application=str(PROJECT_ROOT / "spark_apps" / "audit_join.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        execution_timeout=timedelta(hours=6),
    )
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_join_audit),
        op_kwargs={"report": checked["report"]},
        retries=0,
        **mails(ALERTS, run_next=SHOW),
    )
    audit >> verdict
