"""The DAGs index_rebuild and index_promote: what they make of Params, and in which order they run what."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from include.errors import SettingsError
from supervision import command
from supervision.index_tasks import check_promotion, check_rebuild
from supervision.refusing import refusing

INDEXES = ["orders"]


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """Both DAGs, known to the database."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    found = DagBag()
    with create_session() as session:
        session.merge(DagBundleModel(name="generations"))
        session.commit()
        lazy = [LazyDeserializedDAG.from_dag(found.dags[name]) for name in ("index_rebuild", "index_promote")]
        SerializedDAG.bulk_write_to_db("generations", None, lazy, None, session=session)
        for dag in lazy:
            SerializedDagModel.write_dag(dag, bundle_name="generations", session=session)
    return found


def runs(monkeypatch: pytest.MonkeyPatch, code: str) -> list[list[str]]:
    """The `lyrebird` commands that tasks run; each runs `code` instead."""
    said: list[list[str]] = []

    def argv(arguments: list[str]) -> list[str]:
        said.append(list(arguments))
        return [sys.executable, "-c", code]

    monkeypatch.setattr(command, "lyrebird_argv", argv)
    return said


def states(run: Any) -> dict[str, str]:
    return {each.task_id: str(each.state) for each in run.get_task_instances()}


def test_a_rebuild_is_planned_and_then_filled_by_the_same_index() -> None:
    assert check_rebuild(INDEXES, {"index": "orders"}) == {
        "plan": ["index", "rebuild", "orders", "--dry-run"],
        "arguments": ["orders"],
    }


def test_a_promotion_is_proved_by_the_command_that_moves() -> None:
    params = {"index": "orders", "generation": 3, "accept_differences": True}
    assert check_promotion(INDEXES, params) == {
        "prove": ["index", "promote", "orders", "--generation", "3", "--accept-differences", "--dry-run"],
        "promote": ["index", "promote", "orders", "--generation", "3", "--accept-differences"],
    }
    assert check_promotion(INDEXES, {"index": "orders", "generation": None})["promote"] == [
        "index",
        "promote",
        "orders",
    ]


@pytest.mark.parametrize("check", [check_rebuild, check_promotion])
def test_an_unknown_index_fails_the_first_task_at_once(check: Any) -> None:
    with pytest.raises(AirflowFailException, match="meals"):
        refusing(check)(INDEXES, {"index": "meals"})
    with pytest.raises(SettingsError, match="no index of this name"):
        check(INDEXES, {})


def test_a_generation_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="greater than or equal to 1"):
        check_promotion(INDEXES, {"index": "orders", "generation": 0})


def test_the_fill_gets_its_arguments_from_the_check_and_comes_behind_the_plan(bag: DagBag) -> None:
    dag = bag.dags["index_rebuild"]
    fill: Any = dag.get_task("fill")
    assert {"goes_on", "check"} == fill.upstream_task_ids
    assert str(fill.application).endswith("spark_apps/rebuild_index.py")
    assert dag.max_active_runs == 1
    assert dag.params.get_param("index").schema["enum"] == INDEXES


def test_a_dry_run_ends_behind_the_plan(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    said = runs(monkeypatch, "print('orders-v2 is new')")
    run = bag.dags["index_rebuild"].test(run_conf={"index": "orders", "dry_run": True})
    assert states(run) == {"check": "success", "plan": "success", "goes_on": "success", "fill": "skipped"}
    assert said[-1] == ["index", "rebuild", "orders", "--dry-run"]


def test_readers_follow_behind_the_proof_alone(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    said = runs(monkeypatch, "print('done')")
    dag = bag.dags["index_promote"]
    conf = {"index": "orders", "generation": 2, "accept_differences": False}
    assert states(dag.test(run_conf=conf)) == {"check": "success", "prove": "success", "promote": "success"}
    assert said[-2:] == [
        ["index", "promote", "orders", "--generation", "2", "--dry-run"],
        ["index", "promote", "orders", "--generation", "2"],
    ]
    said.clear()
    for each in dag.tasks:
        monkeypatch.setattr(each, "on_failure_callback", [])
    refused = runs(monkeypatch, "import sys; print('error: generation is not fit for readers'); sys.exit(1)")
    assert states(dag.test(run_conf=conf)) == {"check": "success", "prove": "failed", "promote": "upstream_failed"}
    assert len(refused) == 1
