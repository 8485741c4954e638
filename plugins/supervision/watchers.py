"""Keeps in Airflow's database which task watches an application, for the trigger that is told to kill it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from include.settings.deployment import Deployment
from supervision.decisions import Watcher, was_cleaned_away
from supervision.keeper import kept_applications

__all__ = ["is_cleaned_away", "keep_watcher"]

_KEY: Final = "watcher"


def keep_watcher(task: Any) -> None:
    """Note that `task`, a task instance of Airflow, is about to watch; as an XCom, which goes with the task."""
    task.xcom_push(_KEY, asdict(_watcher(task)))


def is_cleaned_away(task: Any) -> bool | None:
    """Whether Airflow's database has lost the task of a trigger, and another one goes on with what it watched.

    That is the keeper's, or one that the scheduler has made anew. None: see `was_cleaned_away`; ask again.
    """
    try:
        if (task.dag_id, task.task_id) not in {(each.dag, each.task) for each in kept_applications(Deployment.load())}:
            return False
        return was_cleaned_away(_watcher(task), _kept(task), _state(task))
    except Exception:  # noqa: BLE001 - what a person has stopped does not run on because Airflow failed to answer
        return False


def _watcher(task: Any) -> Watcher:
    return Watcher(str(task.id), task.try_number)


def _kept(task: Any) -> Watcher | None:
    at = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
    found = XCom.get_one(key=_KEY, **at)
    return Watcher(**found) if isinstance(found, dict) else None


def _state(task: Any) -> str | None:
    found = RuntimeTaskInstance.get_task_states(task.dag_id, run_ids=[task.run_id], task_ids=[task.task_id])
    states = found.get(task.run_id, {})
    return states[task.task_id] or "" if task.task_id in states else None
