"""### Finish dates of the lake.

**Purpose.** Says which hours and days of the partition groups are over: all Kafka partitions have passed them, by event
time and the lateness that the group declares. Writes `_SUCCESS` into their folders, and updates the asset
`lake://<topic>/dt` with an event for each (its extra has `group`, `topic`, `date`, `hour`, `change`, `edition`). A DAG
that works on finished dates is scheduled by that asset.

**When it runs.** Ten minutes past every hour, and whenever a person starts it. A date that got records after it was
over gets `_LATE`, the next edition of `_SUCCESS` and another event (`change: late`); one that a promoted backfill
replaced gets another event too (`change: replaced`): work on that date again.

**Must not run beside.** Nothing: writers and backfills may go on. One run at a time. An event may come twice after a
crash, with the same extra.

**When it fails.** In `finalise`: the store or Kafka is away; it is tried again. In `verdict`: a topic's chain cannot be
read, the mail says which; the other topics are done. What was marked and not told is told by the next run.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAlias, task

from include.lake.backfill.run_params import partition_groups
from include.lake.finalising.run_params import FinaliseRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.finalised_dates import DATES, announce_dates, check_finalise, judge_dates
from supervision.nightly import only_at
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
GROUPS = partition_groups(deployment)

with DAG(
    dag_id="lake_finalise",
    auto_register=bool(GROUPS),
    # Behind lake_upload.
    schedule=only_at("10 * * * *"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["lake"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird lake status"),
    params=params_of(FinaliseRun, groups=GROUPS),
):
    checked = task(refusing(check_finalise), task_id="check", multiple_outputs=True)(groups=GROUPS)
    finalise = LyrebirdOperator(
        task_id="finalise", arguments=checked["arguments"], execution_timeout=timedelta(minutes=50)
    )
    announce = task(announce_dates, task_id="announce", outlets=[AssetAlias(DATES)])(report=checked["report"])
    # Behind the events: what is acknowledged is not told again.
    acknowledge = LyrebirdOperator(
        task_id="acknowledge", arguments=checked["acknowledgement"], execution_timeout=timedelta(minutes=30)
    )
    verdict = task(judge_dates, task_id="verdict", retries=0)(report=checked["report"])
    finalise >> announce >> acknowledge
    finalise >> verdict
