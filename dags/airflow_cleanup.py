"""### Keep Airflow's own database small.

**Purpose.** Removes from the database of the local stack's Airflow what is older than *Days*: runs with their tasks and
XComs, its audit log, its jobs (Airflow's own clean-up, as `airflow db clean`). Gives the space back to the disk.

**When it runs.** Every six hours from 00:40 UTC on, as a machine may be off at night; and whenever a person starts it.
There is no such DAG where Airflow's database is not the local stack's SQLite file: clean it by `airflow db clean`.

**Must not run beside.** Nothing: all that Airflow does may go on. One run at a time. A run that runs is kept, however
old it is, and with it all runs since it began. Where its DAG was taken out of the deployment more than a week ago, the
run can never end: it goes by its age, and the task's log names its DAG.

A file that was made by an older version is not made smaller: that would keep Airflow from writing for too long. The
task's log says so; after `lyrebird down`, then `lyrebird up` it is, where free room of twice its size is for a copy.

**When it fails.** The last lines of the task's log say why, mostly that the database was locked for too long. What was
removed until then stays so; the next run does the rest.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, task

from include.settings.airflow_settings import SQLITE_FILE
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.airflow_cleanup import CleanupRun, clean
from supervision.alerts import default_args
from supervision.nightly import only_at
from supervision.params import params_of

ALERTS = Deployment.load().one("alerts", Alerts)

with DAG(
    dag_id="airflow_cleanup",
    auto_register=SQLITE_FILE in os.environ,
    schedule=only_at("40 */6 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["airflow"],
    params=params_of(CleanupRun),
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird logs airflow-scheduler"),
):
    task(clean, task_id="clean", execution_timeout=timedelta(hours=2))()
