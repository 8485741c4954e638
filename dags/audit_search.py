"""### Audit the search index.

**Purpose.** Proves that every document of a topic is in its index, by key; then looks, at the same offsets, whether
each document is what the section `expectations` of the deployment files wants. An audit that finds something fails the
run, and so does each expectation that is not met. It also looks whether all records that were read became something,
whether the mapping is the declared one, and for documents of topics that the index does not declare.

**When it runs.** Every night at 02:30 UTC, and whenever a person starts it; when it is new, not before the next night.

**Must not run beside.** Another search audit: one run at a time. It runs beside the indexer by design.

**When it fails.** In `audit` or `expectations`: it could not be made (a server away); it is tried again by itself,
from its start. The job of `audit` looks at the expectations as well; `expectations` has one of its own where that
could not. In `verdict`: there are findings; the mail holds their count and the command that shows them. In
`expect_<name>`: documents are not as expected; the mail names the expectation, some of the documents, and a command
that shows one. Neither is tried again. What each run has found is kept: the link *Audit result* leads there.

**When nothing is there yet.** Before an index is made and filled, `verdict` and `expect_<name>` are skipped, and nobody
gets a mail. An index that an earlier run has judged is not skipped: it is lost, and the run fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.audit.definition import audit_names
from include.audit.expectations.definition import expectations_by_audit
from include.audit.search.run_params import SearchAuditRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditJobOperator, AuditVerdictOperator, expectation_tasks
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing
from supervision.search_audit import check_search_audit, judge_search_audit

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
AUDITS = audit_names(deployment, "search")
EXPECTATIONS = expectations_by_audit(deployment)
SHOW = f"lyrebird audit search {{{{ (params.audits or {AUDITS}) | join(' && lyrebird audit search ') }}}}"

with DAG(
    dag_id="audit_search",
    auto_register=bool(AUDITS),
    schedule=only_at("30 2 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "search"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird status"),
    params=params_of(SearchAuditRun, audits=AUDITS),
):
    checked = task(refusing(check_search_audit), task_id="check", multiple_outputs=True)(
        audits=AUDITS, expecting=list(EXPECTATIONS)
    )
    audit = AuditJobOperator(
        task_id="audit",
        name="audit_search",
        application=str(PROJECT_ROOT / "spark_apps" / "audit_search.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        execution_timeout=timedelta(hours=6),
    )
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_search_audit),
        op_kwargs={"report": checked["report"]},
        retries=0,
        **mails(ALERTS, run_next=SHOW),
    )
    audit >> verdict
    for name, expectations in EXPECTATIONS.items():
        audit >> expectation_tasks(
            name, expectations, checked=checked, alerts=ALERTS, assembled=deployment.names("documents")
        )
