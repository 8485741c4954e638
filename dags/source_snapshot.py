"""### Take a snapshot of a source.

**Purpose.** Copies the present rows of a source's tables into its change topics, as reads (`op: r`), then lets the
replication run. The first thing to start for a new source; later for tables, or rows of them, whose copy is doubted.

**When it runs.** A person starts it (or `make demo`). Only the running capture writes a source's topics: when one runs,
the DAG appends a request to it and waits for the answer, with its progress in the log; when none runs, it starts a
capture that takes the snapshot and ends. At its end it starts `source_replicate`, which does nothing if that already
runs. With the Param *Plan* it says in the log of `plan` what would be read, and reads nothing.

**Must not run beside.** Another snapshot of the same source: one run at a time, the next one waits.

While capture is down (restarts did not help, it is tried again every ten minutes), *check* fails at once, as nobody
knows when it would answer: see to the run of `source_replicate` that it names, then clear it. A *request* that waits
already when capture goes down holds a worker until it is answered: mark its run as failed.

**When it fails.** Read the last lines of the task's log: they name the table and the next step. Clear the failed task
to go on; a request keeps its id over retries and clears, and is carried out once. What was refused is asked anew, by
another run.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, task

from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.source.run_params import LONGEST_SNAPSHOT_S, SnapshotRun
from supervision.alerts import default_args
from supervision.budget import RestartBudget
from supervision.command import LyrebirdOperator
from supervision.first_tasks import choose_snapshot
from supervision.operator import StreamingOperator
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
SOURCES = deployment.names("sources")

with DAG(
    dag_id="source_snapshot",
    auto_register=bool(SOURCES),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["source"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird capture status --source {{ params.source }}"),
    params=params_of(SnapshotRun, source=SOURCES),
):
    checked = task.branch(refusing(choose_snapshot), task_id="check")(sources=SOURCES)
    request = LyrebirdOperator(
        task_id="request", arguments=checked["request"], execution_timeout=timedelta(seconds=LONGEST_SNAPSHOT_S + 600)
    )
    start = StreamingOperator(
        task_id="start",
        application=checked["application"],
        argv=checked["start"],
        stall_after_s=600,
        restarts=RestartBudget(most=2, window_s=600),
        # It ends by itself, and its run with it.
        renew_after_s=0,
        alerts=ALERTS,
    )
    plan = LyrebirdOperator(task_id="plan", arguments=checked["plan"], execution_timeout=timedelta(minutes=10))
    taken = EmptyOperator(task_id="taken", trigger_rule="none_failed_min_one_success")
    # A run of its own, not an asset's event: several events may be merged into one run, and none carries Params.
    replicate = TriggerDagRunOperator(
        task_id="replicate",
        trigger_dag_id="source_replicate",
        conf={"source": "{{ params.source }}", "unless_running": True},
    )
    checked >> [request, start] >> taken >> replicate
    checked >> plan
