"""### Replicate a source.

**Purpose.** Keeps the capture of a source running: every committed transaction of the database goes to its change
topics, exactly once.

**When it runs.** For ever; one run for each source, which a new one follows after seven days while the capture goes
on. `source_snapshot` starts it when the first snapshot is complete; a
person may start it again after having stopped it. Stop it by marking the run failed or successful: the capture ends
cleanly and goes on from the same transaction at the next start.

**Must not run beside.** A second capture of the same source: refused, by name of the run that holds it. It needs a
snapshot first: refused otherwise.

**When it fails.** At once where no restart helps: a purged position, a lost privilege, another capture that has taken
over. The mail says which it is and what to run next, the task's log holds the last lines of the capture's own. Mend the
cause, then clear the task. After several crashes in a row it does not fail: the capture is tried again every ten
minutes, and one mail tells of it; clearing the task tries it at once. While it runs, these are mailed once each, with
the command to run next: a table set aside, changes that a cascade hid, a purge horizon under 24 hours, a server, Kafka
or registry that has been away for five minutes.
"""

from __future__ import annotations

from airflow.sdk import DAG, task

from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.source.run_params import ReplicationRun
from supervision.alerts import default_args
from supervision.first_tasks import check_replication
from supervision.operator import StreamingOperator
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
SOURCES = deployment.names("sources")

with DAG(
    dag_id="source_replicate",
    auto_register=bool(SOURCES),
    schedule=None,
    catchup=False,
    max_active_runs=2 * max(1, len(SOURCES)),
    is_paused_upon_creation=False,
    tags=["source", "stream"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird capture status --source {{ params.source }}"),
    params=params_of(ReplicationRun, source=SOURCES),
):
    checked = task(refusing(check_replication), task_id="check", multiple_outputs=True)()
    StreamingOperator(task_id="capture", application=checked["application"], argv=checked["argv"], alerts=ALERTS)
