"""### Let readers follow another generation of an index.

**Purpose.** Moves an index's alias from the generation that readers have to another one, at once and as a whole: after
a rebuild, and back again. The one that served before stays fed, until `lyrebird index drop` deletes it.

**When it runs.** A person starts it, after `index_rebuild`. `prove` looks whether the generation is fed, has what its
topics hold, ignores no value, and holds the same documents as the one that serves; `promote` looks again and moves.

**Must not run beside.** Nothing: of two promotions at once one is refused, and changes nothing.

**When it fails.** In `prove`: the last lines of its log say what speaks against it. A generation that is behind is
looked at again by itself; documents that differ are named, see them before you start it with *Accept differences*. In
`promote`: the same, or somebody else moved the alias in between; `lyrebird index generations` shows where it leads.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task

from include.index.run_params import PromoteRun
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from supervision.alerts import default_args
from supervision.command import LyrebirdOperator
from supervision.index_tasks import check_promotion
from supervision.params import params_of
from supervision.refusing import refusing

deployment = Deployment.load()
ALERTS = deployment.one("alerts", Alerts)
INDEXES = deployment.names("indexes")

with DAG(
    dag_id="index_promote",
    auto_register=bool(INDEXES),
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["search"],
    doc_md=__doc__,
    default_args=default_args(ALERTS, run_next="lyrebird index generations {{ params.index }}"),
    params=params_of(PromoteRun, index=INDEXES),
):
    checked = task(refusing(check_promotion), task_id="check", multiple_outputs=True)(indexes=INDEXES)
    prove = LyrebirdOperator(task_id="prove", arguments=checked["prove"], execution_timeout=timedelta(hours=2))
    promote = LyrebirdOperator(task_id="promote", arguments=checked["promote"], execution_timeout=timedelta(hours=2))
    # This edge protects readers: nothing moves unless the proof has succeeded.
    prove >> promote
