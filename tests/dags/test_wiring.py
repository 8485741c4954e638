"""The DAGs' own tasks handed on to each other, run by Airflow with commands that do nothing."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun

from supervision import command, first_tasks
from supervision.run_folder import run_folder

CAPTURE = "capture-shop"


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """All DAGs, known to the database."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    bag = DagBag()
    with create_session() as session:
        session.add(DagBundleModel(name="wiring"))
        session.commit()
        lazy = [LazyDeserializedDAG.from_dag(dag) for dag in bag.dags.values()]
        SerializedDAG.bulk_write_to_db("wiring", None, lazy, None, session=session)
        for dag in lazy:
            SerializedDagModel.write_dag(dag, bundle_name="wiring", session=session)
    return bag


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The `lyrebird` commands that tasks run; each does nothing, and well."""
    commands: list[list[str]] = []

    def argv(arguments: list[str]) -> list[str]:
        commands.append(list(arguments))
        return [sys.executable, "-c", "print('done')"]

    monkeypatch.setattr(first_tasks, "lyrebird_argv", argv)
    monkeypatch.setattr(command, "lyrebird_argv", argv)
    return commands


# Whole, as a test run leaves what it was asked for in the DAG's Params.
PLAIN: dict[str, Any] = {"source": "shop", "tables": [], "where": "", "rows_per_s": None, "plan": False}


def states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def test_a_snapshot_starts_a_capture_where_none_runs_and_then_the_replication(
    bag: DagBag, said: list[list[str]]
) -> None:
    run = bag.dags["source_snapshot"].test(run_conf=PLAIN)
    assert states(run) == {
        "check": "success",
        "start": "success",
        "request": "skipped",
        "plan": "skipped",
        "taken": "success",
        "replicate": "success",
    }
    ended = run_folder(CAPTURE).observe().ended
    assert ended is not None
    assert (ended.rc, ended.why) == (0, None)


def test_a_plan_reads_nothing_and_starts_nothing(bag: DagBag, said: list[list[str]]) -> None:
    conf = PLAIN | {"tables": ["orders"], "where": "id > 7", "rows_per_s": 100, "plan": True}
    found = states(bag.dags["source_snapshot"].test(run_conf=conf))
    assert found == {
        "check": "success",
        "plan": "success",
        "start": "skipped",
        "request": "skipped",
        "taken": "skipped",
        "replicate": "skipped",
    }
    assert said[-1][4:] == ["--tables", "orders", "--where", "id > 7", "--rows-per-s", "100", "--dry-run"]


def test_a_snapshot_is_asked_of_the_capture_that_runs(bag: DagBag, said: list[list[str]]) -> None:
    folder = run_folder(CAPTURE)
    folder.path.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    run_json = {"token": "t", "owner": "d|r|t|-1", "guardian_pid": 1, "pid": 2, "started_us": 0}
    (folder.path / "run.json").write_text(json.dumps(run_json))
    try:
        run = bag.dags["source_snapshot"].test(run_conf=PLAIN | {"tables": ["orders"]})
    finally:
        os.close(lock)
    found = states(run)
    assert (found["request"], found["start"], found["replicate"]) == ("success", "skipped", "success")
    asked = said[-1]
    assert asked[:6] == ["capture", "snapshot", "--source", "shop", "--tables", "orders"]
    assert asked[7] == f"source_snapshot:{run.run_id}"


def test_the_keeper_asks_airflow_and_starts_the_run_that_is_missing(
    bag: DagBag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    assert states(bag.dags["keeper"].test()) == {"look": "success", "start": "skipped"}
    folder = run_folder("index_orders").path
    folder.mkdir(parents=True)
    run_json = {"token": "t", "owner": "stream_index_orders|gone|run|-1", "guardian_pid": 1, "pid": 2, "started_us": 0}
    (folder / "run.json").write_text(json.dumps(run_json))
    (folder / "exit.json").write_text(json.dumps({"token": "t", "rc": 0, "why": "lease expired"}))
    assert states(bag.dags["keeper"].test()) == {"look": "success", "start": "success"}
    assert DagRun.find(dag_id="stream_index_orders", run_id="keeper__t_b79dc911")
