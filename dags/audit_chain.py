"""### Audit the lake's chains.

**Purpose.** Proves that object storage has every record of every topic once in each group of the lake: walks the chains
of commits, compares them with the objects that are there, and partition groups with backups. An audit that finds
something fails the run.

**When it runs.** Every night at 03:30 UTC, over all topics of all groups, and whenever a person starts it; when it is
new, not before the next night. *Deep* reads every object as well, which costs what reading the whole lake costs.

**Must not run beside.** Another audit of chains: one run at a time. It runs beside writers, backfills and expiry by
design; what is not committed yet is not judged.

**When it fails.** In `audit`: the audit could not be made (the store away); it is tried again by itself, from its
start. In `verdict`: there are findings; the mail says the first one, and the command that shows all of them with what
to do about each. It is not tried again. What each run has found is kept: the link *Audit result* leads there.

**When nothing is there yet.** `verdict` is skipped, and nobody gets a mail. What an earlier run has judged is not
skipped: it is lost, and the run fails.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.audit.chain.run_params import ChainAuditRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditVerdictOperator
from supervision.chain_audit import check_chain_audit, judge_chain_audit
from supervision.command import LyrebirdOperator
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
GROUPS = deployment.names("lake")

with DAG(
    dag_id="audit_chain",
    auto_register=bool(GROUPS),
    schedule=only_at("30 3 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird lake status"),
    params=params_of(ChainAuditRun, groups=GROUPS),
):
    checked = task(refusing(check_chain_audit), task_id="check", multiple_outputs=True)(groups=GROUPS)
    audit = LyrebirdOperator(
        task_id="audit",
        arguments=checked["arguments"],
        execution_timeout=timedelta(hours=20),
    )
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_chain_audit),
        op_kwargs={"report": checked["report"]},
        retries=0,
        **mails(ALERTS, run_next="lyrebird audit chain --all"),
    )
    audit >> verdict
