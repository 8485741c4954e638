"""### Audit documents.

**Purpose.** Proves that each document of a topic is what the database makes of its key now: assembles it anew, on
Spark's tasks, and compares it with the newest in the topic. An audit that finds something fails the run.

**When it runs.** Every night at 05:00 UTC, a sixteenth of the keys, another each night; by hand all of them, or what
*Share* says. When it is new, not before the next night. *Repair* lets the running assembler write anew what is wrong.

**Must not run beside.** Another audit of documents: one run at a time. It runs beside writers, capture and assembler
by design, and reads the database at the rate of `read_rows_per_s`.

**When it fails.** In `audit`: it could not be made (a server away, the assembler behind); it is tried again by itself,
from its start. In `verdict`: documents are wrong; the mail names keys, fields and tables, and the command that mends.
What each run has found is kept: the link *Audit result* leads there.

**When nothing is there yet.** A topic whose assembler has not begun is named, and the others are judged. Where none
has, `verdict` is skipped, and nobody gets a mail. What an earlier run has judged is not skipped: it is lost, and the
run fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.audit.documents.run_params import DocumentsAuditRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditJobOperator, AuditVerdictOperator
from supervision.document_audit import check_document_audit, judge_document_audit
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
TOPICS = deployment.names("documents")

with DAG(
    dag_id="audit_documents",
    auto_register=bool(TOPICS),
    schedule=only_at("0 5 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "search"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird documents status"),
    params=params_of(DocumentsAuditRun, topics=TOPICS),
):
    checked = task(refusing(check_document_audit), task_id="check", multiple_outputs=True)(topics=TOPICS)
    audit = AuditJobOperator(
        task_id="audit",
        name="audit_documents",
        application=str(PROJECT_ROOT / "spark_apps" / "audit_documents.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        execution_timeout=timedelta(hours=6),
    )
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_document_audit),
        op_kwargs={"report": checked["report"]},
        retries=0,
        **mails(ALERTS, run_next="lyrebird audit history document"),
    )
    audit >> verdict
