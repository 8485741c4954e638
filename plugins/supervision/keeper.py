"""The keeper's task: what should run is compared with what runs, and a new run is asked for where one is missing."""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from include.clock import SystemClock, iso
from include.incidents.supervision import RESTARTED, how_ended
from include.outbox.folder import Mail
from include.settings.applications import Alerts
from include.settings.deployment import Deployment
from include.source.run_params import capture_application
from supervision.alerts import tell
from supervision.decisions import RunState, incidents, on_keep, restarts_to_tell
from supervision.posting import ensure_sender, post
from supervision.processes import here
from supervision.run_folder import KEEPERS, RunFolder, run_folder

__all__ = ["KeptApplication", "kept_applications", "look_after"]

_LOGGER: Final = logging.getLogger(__name__)
_HANDING_OVER_US: Final = 60_000_000


@dataclass(frozen=True)
class KeptApplication:
    """An application, and the task that keeps it running.

    Attributes:
        application: its name.
        dag: its DAG.
        task: the task of that.
        conf: what a run of the DAG is started with.
    """

    application: str
    dag: str
    task: str
    conf: Mapping[str, Any]


def kept_applications(deployment: Deployment) -> list[KeptApplication]:
    """The streams and captures that the deployment files declare."""
    streams = [
        KeptApplication(name, f"stream_{name}", "run", {}) for name in deployment.values.get("applications") or ()
    ]
    captures = [
        KeptApplication(capture_application(name), "source_replicate", "capture", {"source": name})
        for name in deployment.values.get("sources") or ()
    ]
    return [*streams, *captures]


def look_after(
    applications: Sequence[Mapping[str, Any]], alerts: Mapping[str, Any], ti: Any = None
) -> list[dict[str, Any]]:
    """Renew leases, mail what is paused or was restarted; returns runs to start, as arguments of TriggerDagRunOperator.

    May be called again: a generation of an application is followed by one run of the keeper's.

    Args:
        applications: fields of `KeptApplication` each.
        alerts: section `alerts`.
        ti: the keeper's own, which asks Airflow.
    """
    started, now_us = [], SystemClock().now_us()
    for kept in (KeptApplication(**fields) for fields in applications):
        folder = run_folder(kept.application)
        seen = folder.observe()
        dag, _, rest = seen.run.owner.partition("|") if seen.run is not None else ("", "", "")
        if seen.run is None or dag != kept.dag or seen.run.place.is_elsewhere(here()):
            # Nobody has started it yet; or by hand, or for a snapshot; or it is another host's.
            continue
        state = _state(ti, dag, *rest.split("|")[:2])
        keep = on_keep(seen, state, paused=state != "over" and ti.get_dag(dag).is_paused)
        if keep.renew_lease:
            folder.touch_lease()
            # Where the DAG is paused since the run was due to be followed, no trigger tells them.
            ends_with = folder.gave_up().get("id")
            news = [one for one in incidents(folder.progress()[1]) if one["id"] != ends_with]
            tell(folder, Alerts.model_validate(alerts), news)
        if state == "active":
            _tell_crashes(folder, kept.application, Alerts.model_validate(alerts), now_us)
        elif state == "over":
            _is_down_no_more(folder)
        if keep.tell_paused:
            post(_paused(kept, Alerts.model_validate(alerts)))
        # Behind a hand-over Airflow may not have made the run yet that takes it over.
        if keep.start and now_us - folder.handed_over_us() >= _HANDING_OVER_US:
            # The same for the same loss, another one when this run is lost, too.
            run = f"{KEEPERS}{seen.run.token}_{sha256(seen.run.owner.encode()).hexdigest()[:8]}"
            _LOGGER.warning("the run that kept %s is gone: starting %s", kept.application, run)
            if seen.held:
                folder.hand_over(seen.run.token, f"{dag}|{run}|{kept.task}|-1")
            started.append({"trigger_dag_id": dag, "trigger_run_id": run, "conf": dict(kept.conf)})
    ensure_sender()
    return started


def _state(ti: Any, dag: str, run: str, task: str) -> RunState:
    # A clean-up keeps the newest run of a DAG that no person has started, and takes its tasks.
    if not ti.get_ti_count(dag, run_ids=[run], task_ids=[task]):
        return "gone"
    return "active" if ti.get_dr_count(dag, run_ids=[run], states=["queued", "running"]) else "over"


def _tell_crashes(folder: RunFolder, application: str, alerts: Alerts, now_us: int) -> None:
    """Mail that it is down, where the task could not, or that it crashed and runs again."""
    seen, ran_us, (down, told) = folder.observe(), folder.ran_us(), folder.down()
    if down is not None and told.get("id"):
        tell(folder, alerts, [told])
    if down is not None and seen.held and down.is_over(ran_us):
        _is_down_no_more(folder)
        down = None
    restarts = restarts_to_tell(
        seen, folder.exits(), told=folder.restarts_told(), down=down, ran_us=ran_us, now_us=now_us
    )
    if restarts is None:
        return
    ended_us = int(restarts.last["ended_us"])
    times = "once" if restarts.count == 1 else f"{'at least ' * restarts.more}{restarts.count} times"
    log = folder.path / "app.log.1"
    incident = RESTARTED.incident(
        f"{RESTARTED.name}:{ended_us}",
        **{"application": application, "times": times, "how": how_ended(restarts.last)},
        **{"at": f"{iso(ended_us)[:19]}Z", "log": log},
    )
    tell(folder, alerts, [incident.to_json()])
    if incident.id in folder.told():
        try:
            folder.note_restarts_told(ended_us, now_us)
        except OSError:
            _LOGGER.exception("that restarts of %s were told could not be written", application)


def _is_down_no_more(folder: RunFolder) -> None:
    try:
        folder.note_down(None)
    except OSError:
        _LOGGER.exception("that %s is down no more could not be written", folder.path.name)


def _paused(kept: KeptApplication, alerts: Alerts) -> Mail:
    day = iso(SystemClock().now_us())[:10]
    command = f"airflow dags unpause {kept.dag}"
    text = f"{kept.application} shall run, and its DAG {kept.dag} is paused"
    return Mail(
        f"paused {kept.application} {day}",
        alerts.from_,
        tuple(alerts.to),
        f"[lyrebird] PAUSED {text}",
        f"<p><b>{html.escape(text)}.</b></p><p>While it is, nobody starts it again when it crashes or stands still. "
        "To stop it, mark its run as successful. Told once a day.</p>"
        f"<p><b>Run next</b></p><pre>{html.escape(command)}</pre>",
    )
