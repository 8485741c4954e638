"""### Upload to the lake.

**Purpose.** Stores what Kafka has now of groups of the lake on object storage, exactly once, and ends: for groups that
are declared with `run: schedule`, and for whoever wants all of it there at once (*Flush*).

**When it runs.** At the times that the groups' `schedule` declares (every full hour where it does not), and whenever a
person starts it. It takes the groups whose time has come since its last run, started by a person without a choice all
groups on a schedule, as far as their upload policy says that they are due; a run that finds none is skipped.

**Must not run beside.** Nothing: a group's own stream may run meanwhile, both carry the same chains on, and each record
is stored once. One run at a time, the next one waits.

**When it fails.** Read the last lines of the task's log: they name the topic, the partition and the next step. What was
stored is stored; the next try goes on behind it. What a run finds (lost records, refused ones, a partition that stands
still, a store that has been away for a minute) is mailed when it is found, once, also when the next run finds it again:
such a run fails as the one before it, and sends no mail.
"""

from __future__ import annotations

from airflow.sdk import DAG, MultipleCronTriggerTimetable, task

from include.lake.run_params import UPLOADS, UploadRun, scheduled
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.budget import RestartBudget
from supervision.first_tasks import check_upload
from supervision.params import params_of
from supervision.refusing import refusing
from supervision.spark_operators import SparkStreamingOperator

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
GROUPS, BY_SCHEDULE = scheduled(deployment)

with DAG(
    dag_id="lake_upload",
    auto_register=bool(GROUPS),
    # Nothing on a schedule: only a person starts it.
    schedule=MultipleCronTriggerTimetable(*sorted(set(BY_SCHEDULE.values())), timezone="UTC") if BY_SCHEDULE else None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird lake status"),
    params=params_of(UploadRun, groups=GROUPS),
):
    checked = task(refusing(check_upload), task_id="check", multiple_outputs=True)(
        groups=GROUPS, by_schedule=BY_SCHEDULE
    )
    SparkStreamingOperator(
        task_id="upload",
        application=UPLOADS,
        entry="spark_apps/lake_upload.py",
        arguments=checked["arguments"],
        restarts=RestartBudget(most=1, window_s=600),
        # It ends by itself, and its run with it.
        renew_after_s=0,
        alerts=ALERTS,
    )
