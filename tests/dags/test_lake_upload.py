"""The DAG lake_upload: which groups it stores, and when it runs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.lake.run_params import UPLOADS
from supervision.first_tasks import check_upload
from supervision.refusing import refusing

ROOT = Path(__file__).parents[2]
GROUPS = ["by_date", "raw"]


def loaded() -> Any:
    bag = DagBag(dag_folder=str(ROOT / "dags" / "lake_upload.py"))
    assert bag.import_errors == {}
    return bag.dags["lake_upload"]


def test_without_a_choice_the_groups_on_a_schedule_are_stored_by_their_policy() -> None:
    assert check_upload(GROUPS, ["raw"], {"groups": [], "flush": False}) == {"arguments": ["--group", "raw"]}


def test_a_person_may_flush_any_group() -> None:
    plan = check_upload(GROUPS, [], {"groups": ["by_date"], "flush": True})
    assert plan == {"arguments": ["--group", "by_date", "--flush"]}


def test_with_nothing_to_do_the_run_is_skipped_and_not_failed() -> None:
    with pytest.raises(AirflowSkipException, match="run: schedule"):
        refusing(check_upload)(GROUPS, [], {"groups": [], "flush": False})


def test_an_unknown_group_fails_the_first_task_at_once() -> None:
    with pytest.raises(AirflowFailException, match="by_day"):
        refusing(check_upload)(GROUPS, [], {"groups": ["by_day"]})


def test_the_upload_gets_its_arguments_from_the_check_and_the_programs_name_is_there() -> None:
    dag = loaded()
    upload = dag.get_task("upload")
    assert upload.upstream_task_ids == {"check"}
    assert (upload.entry, upload.application) == ("spark_apps/lake_upload.py", UPLOADS)
    assert upload.alerts.to == ["on-call@localhost"]
    assert dag.max_active_runs == 1


def test_it_runs_hourly_where_a_group_is_on_a_schedule_and_else_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert loaded().schedule.expression == "0 * * * *"
    for lake in ("lake: {raw: {run: stream}}", ""):
        (tmp_path / "all.yaml").write_text(f"alerts: {{from: a@localhost, to: [b@localhost]}}\n{lake}\n")
        monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
        dag = loaded()
        assert dag.schedule is None
        dag.params.validate()
