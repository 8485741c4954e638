"""### Audit tables.

**Purpose.** Proves that the copy of each captured table is the table, row by row, as of named transactions of its
database: the copy is its lake table, or its topic. An audit that finds something fails the run.

**When it runs.** Every night at 04:00 UTC over the sources that `table_audits` names, and whenever a person starts it;
when it is new, not before the next night. *Repair* lets the running capture read again what is wrong.

**Must not run beside.** Another audit of tables: one run at a time. It runs beside writers, capture and the lake by
design, and leaves the server alone while others keep it busy.

**When it fails.** In `audit`: a table could not be compared (a server away, capture behind); it is tried again by
itself. In `verdict`: rows are wrong, or a table was not looked at; the mail names keys and columns, and the command
that repairs. What each run has found is kept, with its tree of sums: the link *Audit result* leads there.

**When nothing is there yet.** A table that has no copy is named, and the others are judged. Where none has, `verdict`
is skipped, and nobody gets a mail. What an earlier run has judged is not skipped: it is lost, and the run fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.audit.merkle.definition import audited_sources
from include.audit.merkle.run_params import TableAuditRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.airflow_conf import jobs_pool
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditJobOperator, AuditVerdictOperator
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing
from supervision.table_audit import check_table_audit, judge_table_audit

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
SOURCES = deployment.names("sources")
NIGHTLY = audited_sources(deployment)

with DAG(
    dag_id="audit_tables",
    auto_register=bool(SOURCES),
    schedule=only_at("0 4 * * *") if NIGHTLY else None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "source", "lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird capture status"),
    params=params_of(TableAuditRun, source=SOURCES),
):
    jobs = task(refusing(check_table_audit), task_id="check")(sources=NIGHTLY)
    audit = AuditJobOperator.partial(
        task_id="audit",
        name="audit_tables",
        application=str(PROJECT_ROOT / "spark_apps" / "audit_tables.py"),
        driver_memory="512m",
        pool=jobs_pool(),
        execution_timeout=timedelta(hours=12),
        max_active_tis_per_dagrun=2,
        map_index_template="{{ task.application_args[3] }}",
    ).expand(application_args=jobs)
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_table_audit),
        op_kwargs={"jobs": jobs},
        retries=0,
        # What was found is told, also where another table could not be looked at.
        trigger_rule="all_done",
        **mails(ALERTS, run_next="lyrebird audit history table"),
    )
    audit >> verdict
