"""### Make an index again from its topics.

**Purpose.** Makes the next generation of an index, as the deployment files declare it now, and fills it from the
beginning of its topics beside the one that readers have: for another mapping, and for an index that was lost. Then the
indexing application writes both, and the new one is compared with the old one (with the topics, when there is none).

**When it runs.** A person starts it. `plan` says which generation is made of how much (with *Dry run* that is all);
`fill` does it, many ranges of the topics at once. Readers follow by the DAG `index_promote`.

**Must not run beside.** Another rebuild of the same index: the later one takes over and the earlier one fails. It runs
beside the indexing application by design; that has to run for the last step.

**When it fails.** Read the last lines of the task's log: they name the next step. It is tried again by itself, and goes
on where it was; so does the next run. An unfinished generation costs disk only: `lyrebird index drop` deletes it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.index.run_params import RebuildRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.first_tasks import unless_dry_run
from supervision.index_tasks import check_rebuild
from supervision.params import params_of
from supervision.refusing import refusing
from supervision.spark_operators import SparkJobOperator

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
INDEXES = deployment.names("indexes")

with DAG(
    dag_id="index_rebuild",
    auto_register=bool(INDEXES),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["search"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird index generations {{ params.index }}"),
    params=params_of(RebuildRun, index=INDEXES),
):
    checked = task(refusing(check_rebuild), task_id="check", multiple_outputs=True)(indexes=INDEXES)
    plan = LyrebirdOperator(task_id="plan", arguments=checked["plan"], execution_timeout=timedelta(minutes=10))
    goes_on = task.short_circuit(unless_dry_run, task_id="goes_on")()
    fill = SparkJobOperator(
        task_id="fill",
        name="rebuild_index",
        application=str(PROJECT_ROOT / "spark_apps" / "rebuild_index.py"),
        application_args=checked["arguments"],
        driver_memory="512m",
        cores=2,
        execution_timeout=timedelta(hours=48),
    )
    plan >> goes_on >> fill
