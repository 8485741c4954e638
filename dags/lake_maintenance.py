"""### Remove what tables on the lake do not need any more.

**Purpose.** Of each table that section `tables` keeps, removes files that no version of its `time_travel_days` has,
files that a crashed batch left, and the log of earlier versions (`lyrebird table maintain`).

**When it runs.** At 03:20 UTC every day where tables are declared, and whenever a person starts it. With `topic` for
the table of that topic alone.

**Must not run beside.** Nothing: the table's application, readers and audits of versions within these days may go on.
A reader of an older version loses its files. One run at a time.

**When it fails.** The last line of the task's log says why. Nothing is half removed: the next run goes on where this
one ended.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from include.lake.tables.run_params import MaintenanceRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.nightly import only_at
from supervision.params import params_of

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
TABLES = deployment.names("tables")

with DAG(
    dag_id="lake_maintenance",
    auto_register=bool(TABLES),
    schedule=only_at("20 3 * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lake"],
    params=params_of(MaintenanceRun),
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird table maintain --dry-run"),
):
    LyrebirdOperator(
        task_id="maintain",
        arguments=["table", "maintain", "{{ params.topic or '' }}"],
        execution_timeout=timedelta(hours=6),
    )
