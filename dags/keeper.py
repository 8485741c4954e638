"""### Keep applications and mails going.

**Purpose.** Compares what should run with what runs. A stream or capture whose run has vanished from Airflow's database
(a clean-up takes runs by age, also those that run) gets a new run, which takes the application over as it runs, or
starts it where it has stopped. Renews the leases of applications whose runs are there. Sees to it that mails are sent
that wait in the outbox.

**When it runs.** Every two minutes, for some seconds. It starts nothing that a person has not started once, that a
person has stopped by marking its run, that has ended by itself, or whose task has failed: that was mailed. An
application that shall run and whose DAG is paused is mailed once a day.

**Must not run beside.** Nothing. One run at a time.

**When it fails.** Airflow's api-server is away; the next run does the same again. While this DAG is paused, everything
goes on, but nobody does what is said above.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, task

from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.keeper import kept_applications, look_after
from supervision.nightly import only_at

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
KEPT = kept_applications(deployment)

with DAG(
    dag_id="keeper",
    auto_register=bool(KEPT),
    schedule=only_at("*/2 * * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["stream"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird status"),
):
    missing = task(look_after, task_id="look", execution_timeout=timedelta(minutes=2))(
        applications=[asdict(each) for each in KEPT], alerts=ALERTS.model_dump(by_alias=True)
    )
    TriggerDagRunOperator.partial(task_id="start", skip_when_already_exists=True).expand_kwargs(missing)
