"""### Run a streaming application.

**Purpose.** Keeps one application of the deployment files' section `applications` running: a PySpark program that reads
topics and writes topics or an index.

**When it runs.** For ever, from a run that a person (or `make demo`) starts. After seven days a new run takes the
application over as it runs. Stop it by marking the run failed or successful: the application finishes its batch and
ends; the next start goes on from there.

**Must not run beside.** Itself: a second run waits for the first. Anything that writes the same topic or index.

**When it fails.** Where a group of the lake says that no restart helps (another has taken over, the store is unfit);
mend the cause, then clear the task. After several crashes in a row it does not fail: the application is tried again
every ten minutes, and one mail tells of it; clearing the task tries it at once. Mail and task's log hold the last
lines of the application's own log, the link "Application log" leads to the whole. What an application reports
while it runs is mailed once each, with the command to run next. Those of the lake tell of lost records, records that
a parser refuses, a delay of a minute over the upload policy, a partition that stands still, a store, Kafka or registry
that has been away for a minute.
"""

from __future__ import annotations

from airflow.sdk import DAG

from include.settings.applications import Alerts, Application, StreamRun
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.budget import RestartBudget
from supervision.params import params_of
from supervision.spark_operators import SparkStreamingOperator

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)


def stream(name: str, application: Application) -> DAG:
    """The DAG of one application: they differ by data alone."""
    hosts = "".join(f"\n* `{topic}`" for topic in application.topics)
    with DAG(
        dag_id=f"stream_{name}",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["stream"],
        doc_md=f"{__doc__}\n`{application.entry} --application {name}`\n{hosts and 'Topics:' + hosts}",
        default_args=default_args(ALERTS, run_next="lyrebird status"),
        params=params_of(StreamRun, defaults={"memory": application.memory}),
    ) as dag:
        SparkStreamingOperator(
            task_id="run",
            application=name,
            entry=application.entry,
            arguments=["--application", name],
            conf=application.spark,
            memory="{{ params.memory }}",
            cores=application.cores,
            stall_after_s=application.stall_after_s,
            start_within_s=application.start_within_s,
            grace_s=application.grace_s,
            lease_ttl_s=application.lease_ttl_s,
            restarts=RestartBudget(**application.restarts.model_dump()),
            alerts=ALERTS,
        )
    return dag


# What is wrong in one entry takes no DAG from the others: `deployment_errors.py` tells of it.
_applications, _ = deployment.readable("applications", Application)
for _name, _application in _applications.items():
    stream(_name, _application)
