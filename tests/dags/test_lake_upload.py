"""The DAG lake_upload: which groups it stores, and when it runs by itself."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from croniter import croniter

from include.lake.cron import Cron
from include.lake.run_params import UPLOADS
from supervision.first_tasks import check_upload
from supervision.refusing import refusing
from tests.support.paths import ROOT

GROUPS = ["by_date", "raw"]


def loaded() -> Any:
    bag = DagBag(dag_folder=str(ROOT / "dags" / "lake_upload.py"))
    assert bag.import_errors == {}
    return bag.dags["lake_upload"]


def test_without_a_choice_the_groups_on_a_schedule_are_stored_by_their_policy() -> None:
    assert check_upload(GROUPS, {"raw": "0 * * * *"}, {"groups": [], "flush": False}) == {
        "arguments": ["--group", "raw"]
    }


def test_a_person_may_flush_any_group() -> None:
    plan = check_upload(GROUPS, {}, {"groups": ["by_date"], "flush": True})
    assert plan == {"arguments": ["--group", "by_date", "--flush"]}


def test_with_nothing_to_do_the_run_is_skipped_and_not_failed() -> None:
    with pytest.raises(AirflowSkipException, match="run: schedule"):
        refusing(check_upload)(GROUPS, {}, {"groups": [], "flush": False})


def test_an_unknown_group_fails_the_first_task_at_once() -> None:
    with pytest.raises(AirflowFailException, match="by_day"):
        refusing(check_upload)(GROUPS, {}, {"groups": ["by_day"]})


def test_the_upload_gets_its_arguments_from_the_check_and_the_programs_name_is_there() -> None:
    dag = loaded()
    upload = dag.get_task("upload")
    assert upload.upstream_task_ids == {"check"}
    assert (upload.entry, upload.application) == ("spark_apps/lake_upload.py", UPLOADS)
    assert upload.alerts.to == ["on-call@localhost"]
    assert dag.max_active_runs == 1


def test_a_scheduled_run_takes_the_groups_whose_time_has_come() -> None:
    by_schedule = {"raw": "0 * * * *", "by_date": "0 3 * * *"}
    four = dt.datetime(2026, 11, 22, 4, tzinfo=dt.UTC)
    run = SimpleNamespace(run_type="scheduled")

    def asked(last: dt.datetime | None) -> list[str]:
        found: list[str] = check_upload(GROUPS, by_schedule, {}, run, four, last)["arguments"]
        return found[1::2]

    assert asked(four - dt.timedelta(hours=1)) == ["raw"]
    assert asked(four - dt.timedelta(hours=2)) == ["raw", "by_date"]
    assert asked(None) == ["raw"]
    run.run_type = "manual"
    assert asked(None) == ["raw", "by_date"]


def test_its_schedules_are_those_of_the_groups_and_mean_the_same_to_airflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crons = ["*/7 3-9/2 * * *", "15 4 1-9 * 1,5", "5/20 * * 1-6 7"]
    groups = "".join(f"  g{n}: {{run: schedule, schedule: '{cron}'}}\n" for n, cron in enumerate(crons))
    (tmp_path / "all.yaml").write_text(f"alerts: {{from: a@localhost, to: [b@localhost]}}\nlake:\n{groups}")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    assert {each.expression for each in loaded().schedule.timetables} == set(crons)
    for cron in crons:
        upcoming = croniter(cron, dt.datetime(2026, 11, 22, tzinfo=dt.UTC))
        ours, at = Cron.parse(cron), dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
        for _ in range(40):
            then = upcoming.get_next(dt.datetime)
            assert ours.holds(then)
            assert not ours.came(at, then - dt.timedelta(minutes=1))
            at = then


def test_it_runs_hourly_where_a_group_is_on_a_schedule_and_else_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [each.expression for each in loaded().schedule.timetables] == ["0 * * * *"]
    text = "alerts: {from: a@localhost, to: [b@localhost]}\nlake: {raw: {run: stream}}\n"
    (tmp_path / "all.yaml").write_text(text)
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    dag = loaded()
    assert dag.schedule is None
    dag.params.validate()
