"""### Forget old days of the lake.

**Purpose.** Of each group that declares `keep_days`, lets all topics forget the cuts whose records are all older: the
readers' pointer moves up first, then data and old commits are removed, by the credentials of the section `expiry`.

**When it runs.** At 03:40 UTC every day where a group has `keep_days`, and whenever a person
starts it.

**Must not run beside.** A backfill of days that are about to be forgotten: its promotion would find them gone. Writers,
readers of kept days and audits may go on. One run at a time.

**When it fails.** The last lines of the task's log name topic, partition and next step. Nothing is half forgotten: the
next run goes on where this one ended. A partition whose oldest commits somebody else has removed before their time is
left as it is, and each run fails until a person puts them back or accepts that they are gone.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.nightly import only_at

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
GROUPS = [name for name in deployment.names("lake") if deployment.filled("lake", name, "keep_days")]

with DAG(
    dag_id="lake_forget",
    auto_register=bool(GROUPS),
    schedule=only_at("40 3 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird lake forget --due --dry-run"),
):
    LyrebirdOperator(
        task_id="forget", arguments=["lake", "forget", "--due", "--yes"], execution_timeout=timedelta(hours=12)
    )
