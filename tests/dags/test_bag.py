"""Integrity and policy of all DAGs, over the deployment of this folder and over the project's own."""

from __future__ import annotations

import os
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable as CronTrigger

from tests.support.paths import ROOT

# Every DAG file and the DAGs that it makes of the deployment files beside this one.
EXPECTED = {
    "airflow_cleanup.py": {"airflow_cleanup"},
    "audit_chain.py": {"audit_chain"},
    "audit_documents.py": {"audit_documents"},
    "audit_join.py": {"audit_join"},
    "audit_search.py": {"audit_search"},
    "audit_tables.py": {"audit_tables"},
    "deployment_errors.py": set(),
    "eventtime_replay.py": {"eventtime_replay"},
    "index_promote.py": {"index_promote"},
    "index_rebuild.py": {"index_rebuild"},
    "keeper.py": {"keeper"},
    "lake_backfill.py": {"lake_backfill"},
    "lake_finalise.py": {"lake_finalise"},
    "lake_forget.py": {"lake_forget"},
    "lake_maintenance.py": {"lake_maintenance"},
    "lake_upload.py": {"lake_upload"},
    "source_replicate.py": {"source_replicate"},
    "source_snapshot.py": {"source_snapshot"},
    "streams.py": {"stream_assemble_orders", "stream_index_orders"},
}
TAGS = {"airflow", "source", "stream", "audit", "search", "join", "lake", "eventtime"}


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag()


def serialised(dag: Any) -> Any:
    """The DAG as the scheduler reads it from Airflow's database."""
    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def dags(bag: DagBag) -> list[Any]:
    return [bag.dags[name] for name in sorted(bag.dags)]


def test_every_file_loads(bag: DagBag) -> None:
    assert bag.import_errors == {}


def test_each_file_makes_the_dags_that_are_listed_here(bag: DagBag) -> None:
    made: dict[str, set[str]] = {path.name: set() for path in (ROOT / "dags").glob("*.py")}
    for dag in dags(bag):
        made[Path(dag.fileloc).name].add(dag.dag_id)
    assert made == EXPECTED


def test_every_dag_serialises(bag: DagBag) -> None:
    for dag in dags(bag):
        assert DagSerialization.to_dict(dag)["dag"]["dag_id"] == dag.dag_id


def test_every_dag_says_what_it_is_for_and_what_to_do(bag: DagBag) -> None:
    for dag in dags(bag):
        for word in ("**Purpose.**", "**When it runs.**", "**Must not run beside.**", "**When it fails.**"):
            assert word in dag.doc_md, (dag.dag_id, word)


def test_every_dag_has_tags_of_the_list_and_an_explicit_catchup(bag: DagBag) -> None:
    for dag in dags(bag):
        assert dag.tags
        assert set(dag.tags) <= TAGS
        assert dag.catchup is False
        assert "catchup=False" in Path(dag.fileloc).read_text()


def test_every_task_has_an_owner_retries_and_mails(bag: DagBag) -> None:
    for dag in dags(bag):
        for task in dag.tasks:
            where = (dag.dag_id, task.task_id)
            assert task.owner == "lyrebird", where
            # A verdict is not made better by asking again.
            verdict = task.task_id == "verdict" or ".expect_" in task.task_id
            assert task.retries >= (0 if verdict else 1), where
            assert task.on_failure_callback, where
            assert task.on_retry_callback, where
            assert not task.email, where


def test_every_param_is_typed_titled_and_described(bag: DagBag) -> None:
    for dag in dags(bag):
        assert isinstance(dag.params, ParamsDict)
        dag.params.validate()
        for name in dag.params:
            param = dag.params.get_param(name)
            assert {"type", "title"} <= set(param.schema), (dag.dag_id, name)
            assert param.description, (dag.dag_id, name)


def test_a_param_that_may_stay_empty_says_so_as_the_form_refuses_to_trigger_else(bag: DagBag) -> None:
    for dag in dags(bag):
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.value not in ("", None) or "null" in param.schema["type"], (dag.dag_id, name)


def test_choices_come_from_the_deployment_files(bag: DagBag) -> None:
    def schema(dag: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = bag.dags[dag].params.get_param(name).schema
        return found

    assert schema("source_snapshot", "source")["enum"] == ["shop", "warehouse"]
    assert schema("source_replicate", "source")["enum"] == ["shop", "warehouse"]
    assert schema("audit_search", "audits")["items"]["enum"] == ["assembled_order"]
    assert schema("lake_upload", "groups")["items"]["enum"] == ["by_date", "raw"]


def test_a_snapshot_comes_before_the_replication(bag: DagBag) -> None:
    dag = bag.dags["source_snapshot"]
    replicate: Any = dag.get_task("replicate")
    assert replicate.trigger_dag_id == "source_replicate"
    assert replicate.upstream_task_ids == {"taken"}
    assert dag.get_task("taken").upstream_task_ids == {"request", "start"}
    assert dag.get_task("check").upstream_task_ids == set()


def test_what_holds_its_worker_until_a_job_ends_waits_in_a_pool_that_leaves_workers_to_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LYREBIRD_JOBS_POOL", "lyrebird_jobs")
    pools: dict[str, set[str]] = {}
    for dag in dags(DagBag()):
        for task in serialised(dag).tasks:
            pools.setdefault(task.pool, set()).add(task.task_type)
    assert pools["lyrebird_jobs"] == {
        "AuditJobOperator",
        "ExpectationsOperator",
        "LyrebirdOperator",
        "SparkJobOperator",
    }
    assert not pools["lyrebird_jobs"] & pools["default_pool"]
    assert {"StreamingOperator", "SparkStreamingOperator"} & pools["default_pool"]


def test_without_a_pool_of_jobs_every_task_is_in_airflow_s_own(bag: DagBag) -> None:
    assert {task.pool for dag in dags(bag) for task in dag.tasks} == {"default_pool"}


def test_only_one_run_of_an_application_is_active(bag: DagBag) -> None:
    for dag in dags(bag):
        if dag.dag_id.startswith("stream_"):
            assert dag.max_active_runs == 1


def test_a_streams_settings_reach_its_operator(bag: DagBag) -> None:
    run: Any = bag.dags["stream_index_orders"].get_task("run")
    assert (run.entry, run.arguments) == ("spark_apps/index_documents.py", ["--application", "index_orders"])
    assert run.conf == {"spark.sql.shuffle.partitions": 2}
    assert (run.restarts.most, run.restarts.window_s) == (2, 60)
    assert run.alerts.to == ["on-call@localhost"]


def test_every_program_that_a_dag_names_exists(bag: DagBag) -> None:
    for dag in dags(bag):
        for task in dag.tasks:
            for program in (getattr(task, "entry", None), getattr(task, "application", None)):
                if isinstance(program, str) and program.endswith(".py"):
                    assert (ROOT / program).is_file(), (dag.dag_id, program)


def made_by(deployment: Path, monkeypatch: pytest.MonkeyPatch) -> DagBag:
    """What the DAG files make of another deployment, where nobody has set a name of a server."""
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(deployment))
    for name in [name for name in os.environ if name.startswith("LYREBIRD_")]:
        if name not in {"LYREBIRD_DEPLOYMENT", "LYREBIRD_STATE"}:
            monkeypatch.delenv(name)
    return DagBag()


def broken(bag: DagBag) -> dict[str, str]:
    """DAG file → its import error's last line."""
    return {Path(file).name: text.strip().splitlines()[-1] for file, text in bag.import_errors.items()}


def test_the_projects_own_deployment_makes_dags_without_address_or_secret_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bag = made_by(ROOT / "include" / "deployment", monkeypatch)
    assert bag.import_errors == {}
    assert {"source_snapshot", "source_replicate", "audit_search"} < set(bag.dags)
    assert {"lake_upload", "stream_lake_backup", "stream_lake_partition"} < set(bag.dags)
    assert {"stream_join_shop", "stream_index_joined", "audit_join"} < set(bag.dags)
    assert {"stream_process_scooters", "eventtime_replay"} < set(bag.dags)


def test_a_deployment_with_alerts_alone_makes_no_dag_and_breaks_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text("alerts: {from: a@localhost, to: [b@localhost]}\n", encoding="utf-8")
    bag = made_by(tmp_path, monkeypatch)
    assert (bag.import_errors, dict(bag.dags)) == ({}, {})


def test_a_source_alone_makes_the_dags_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "alerts: {from: a@localhost, to: [b@localhost]}\nsources: {shop: {password: '${LYREBIRD_PASSWORD}'}}\n"
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    bag = made_by(tmp_path, monkeypatch)
    assert bag.import_errors == {}
    assert set(bag.dags) == {"source_snapshot", "source_replicate", "audit_tables", "keeper"}


def test_a_broken_file_takes_away_the_dags_of_its_sections_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "include" / "deployment", tmp_path, dirs_exist_ok=True)
    (tmp_path / "indexes.yaml").write_text("indexes:\n  orders: {\n", encoding="utf-8")
    whole, bag = DagBag(), made_by(tmp_path, monkeypatch)
    errors = broken(bag)
    assert set(errors) == {"audit_search.py", "deployment_errors.py", "index_promote.py", "index_rebuild.py"}
    for line in errors.values():
        assert "indexes.yaml', line=3" in line
    assert {"source_snapshot", "lake_upload", "audit_join", "stream_index_orders"} <= set(bag.dags)
    assert not {"audit_search", "index_promote", "index_rebuild"} & set(bag.dags)
    assert {"audit_search", "index_promote", "index_rebuild"} <= set(whole.dags)


def test_a_bad_application_takes_no_dag_from_the_others_and_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "alerts: {from: a@localhost, to: [b@localhost]}\n"
        "applications:\n"
        "  good: {entry: spark_apps/join.py}\n"
        "  bad: {entry: spark_apps/join.py, memroy: 1g}\n"
    )
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "b.yaml").write_text("applications:\n  worse: [\n", encoding="utf-8")
    bag = made_by(tmp_path, monkeypatch)
    assert set(bag.dags) == {"stream_good", "keeper"}
    (error,) = [broken(bag)["deployment_errors.py"]]
    assert "a.yaml', line=4, path='applications.bad.memroy'" in error
    assert "b.yaml', line=3" in error
    assert set(broken(bag)) == {"deployment_errors.py"}


@pytest.mark.parametrize("after", [timedelta(seconds=1), timedelta(minutes=4), timedelta(minutes=50)])
def test_a_new_dag_never_begins_with_a_run_whose_time_has_passed(
    bag: DagBag, after: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    timetables = {dag.dag_id: dag.timetable for dag in map(serialised, dags(bag)) if type(dag.timetable) is CronTrigger}
    assert {"audit_chain", "audit_search", "lake_finalise"} <= set(timetables)
    for name, timetable in timetables.items():
        due = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
        )
        assert due is not None
        now = due.run_after + after
        monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda now=now: now)
        first = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
        )
        assert first is not None
        assert first.run_after >= now, name


def test_no_dag_file_takes_airflows_own_timetable_of_one_time() -> None:
    for path in (ROOT / "dags").glob("*.py"):
        assert not re.search(r"\bCronTriggerTimetable\b", path.read_text()), path.name
