"""### Replay days of event time.

**Purpose.** Runs a day of the event time jobs again, from the savepoint of that day and over the same records, and
compares every output with what the live run wrote. A run that finds a difference fails.

**When it runs.** Every night at 04:30 UTC over yesterday; when it is new, not before the next night. A person may start
it with days and jobs; Airflow's own backfill starts a run for each of its days, over that day.

**Must not run beside.** Another run of itself: one at a time. It runs beside the live jobs by design, and writes to
topics of its own.

**When it fails.** In `replay`: it could not be made (a server away); it is tried again by itself, from its start. In
`verdict`: a job wrote something else live; the mail names the first output that differs. What the replay wrote stays in
topics that have `.replay-` in their names, to be looked at. A day that cannot be replayed any more fails the run,
too; one that the live run has not come to yet is said and fails no nightly run. What each run has found is kept: the
link *Audit result* leads there.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.eventtime.rerun.run_params import ReplayRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args, mails
from supervision.audit_tasks import AuditJobOperator, AuditVerdictOperator
from supervision.eventtime_replay import check_replay, judge_replay
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
JOBS = deployment.names("eventtime")

with DAG(
    dag_id="eventtime_replay",
    auto_register=bool(JOBS),
    schedule=only_at("30 4 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["audit", "eventtime"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird eventtime status"),
    params=params_of(ReplayRun, jobs=JOBS),
):
    checked = task(refusing(check_replay), task_id="check", multiple_outputs=True)(jobs=JOBS)
    replay = AuditJobOperator(
        task_id="replay",
        name="replay_events",
        application=str(PROJECT_ROOT / "spark_apps" / "replay_events.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        execution_timeout=timedelta(hours=12),
    )
    verdict = AuditVerdictOperator(
        task_id="verdict",
        python_callable=refusing(judge_replay),
        op_kwargs={"report": checked["report"], "asked": checked["asked"]},
        retries=0,
        **mails(ALERTS, run_next="lyrebird audit history replay"),
    )
    replay >> verdict
