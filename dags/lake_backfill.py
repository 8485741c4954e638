"""### Make dates of the lake again.

**Purpose.** Makes the cuts of a topic that hold records of some days again, with the parser that is asked for, from the
raw copy (or from Kafka, while it has the records), and lets readers follow them at once. For a parser's bug that was
found after Kafka dropped the records, and for objects that were lost.

**When it runs.** A person starts it with a topic and days; or Airflow's own backfill, which starts a run for each of
its days. Never by itself. `plan` says which cuts are made again from what (with *Dry run* that is all); `write` makes
them in a generation of their own, beside the group's live stream; `promote` compares both generations, and readers
follow the new one when counts and digests are as expected. One Spark application at a time.

**Must not run beside.** Nothing: live goes on, and readers see the old cuts or the new ones, never both. Days that
follow on each other share cuts; each run makes them again whole. A day without records is skipped in Airflow's own
backfill, and fails in the run of a person who asked for it.

**When it fails.** Read the last lines of the task's log: they name the partition, the offsets and the next step. In
`plan`: the raw copy or the deployment does not allow it. In `write`: clear it to go on; what is whole stays. In
`promote`: the comparison is not clean, and the log shows why; see it, then start `lyrebird lake promote` with
`--accept-differences`, or give the run up by `lyrebird lake expire`. Old objects stay until `lyrebird lake expire`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.lake.backfill.run_params import BackfillRun, partition_groups
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.first_tasks import check_backfill, unless_dry_run
from supervision.on_request import DaysOnRequest
from supervision.params import params_of
from supervision.refusing import refusing
from supervision.spark_operators import SparkJobOperator

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
GROUPS = partition_groups(deployment)

with DAG(
    dag_id="lake_backfill",
    auto_register=bool(GROUPS),
    schedule=DaysOnRequest(),
    catchup=False,
    is_paused_upon_creation=False,
    tags=["lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird lake status"),
    params=params_of(BackfillRun, group=GROUPS),
):
    checked = task(refusing(check_backfill), task_id="check", multiple_outputs=True)(groups=GROUPS)
    plan = LyrebirdOperator(
        task_id="plan", arguments=checked["plan"], skips=checked["skips"], execution_timeout=timedelta(hours=1)
    )
    goes_on = task.short_circuit(unless_dry_run, task_id="goes_on")()
    write = SparkJobOperator(
        task_id="write",
        name="backfill_lake",
        application=str(PROJECT_ROOT / "spark_apps" / "backfill_lake.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        # Runs of Airflow's backfill are many at once.
        max_active_tis_per_dag=1,
        execution_timeout=timedelta(hours=24),
    )
    promote = LyrebirdOperator(task_id="promote", arguments=checked["promote"], execution_timeout=timedelta(hours=1))
    plan >> goes_on >> write >> promote
