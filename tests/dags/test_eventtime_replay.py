"""The DAG eventtime_replay: which days are replayed, what its mail says, when it runs."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.api.datamodels._generated import DagRunType

from include.errors import SettingsError, Terminal
from include.settings.environment import state_folder
from supervision.eventtime_replay import check_replay, judge_replay
from supervision.pages.audits import audit_page, audits_page
from tests.support.paths import ROOT

NIGHT = dt.datetime(2026, 11, 20, 4, 30, tzinfo=dt.UTC)
SAME: dict[str, Any] = {
    "job": "status",
    "day": "2026-11-19",
    "at": "2026-11-20T04:30:40Z",
    "took_s": 12.0,
    "until": "2026-11-20T00:00:02Z",
    "read": 431_022,
    "live": 1_204,
    "clean": True,
    "found": {},
    "said": ["status on 2026-11-19: 431,022 records, 17 late", "  all the same"],
}
DIFFERS: dict[str, Any] = {
    **SAME,
    "clean": False,
    "found": {"altered": 2},
    "said": ["status on 2026-11-19: 431,022 records", "  the first, altered, is events 3 of s17"],
}
NOT_YET: dict[str, Any] = {
    "job": "status",
    "day": "2026-11-19",
    "at": "2026-11-20T04:30:40Z",
    "took_s": 0.0,
    "clean": False,
    "error": "the live run has not come to this day (reached='nothing').",
    "waits": True,
}
IMPOSSIBLE: dict[str, Any] = {
    **NOT_YET,
    "error": "an object that a savepoint is made of is gone (key='state/x').",
    "waits": False,
}


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def written(*reports: dict[str, Any]) -> str:
    checked = check_replay(["status"], {}, "r1", None, NIGHT)
    path = Path(checked["report"])
    path.write_text(json.dumps({"replays": reports}))
    return str(path)


def test_by_itself_a_night_is_about_yesterday_and_airflows_backfill_about_its_own_day() -> None:
    nightly = check_replay(["a", "b"], {}, "scheduled__1", SimpleNamespace(run_type="scheduled"), NIGHT)
    assert nightly["arguments"] == [
        *("--job", "a", "--job", "b", "--day", "2026-11-19", "--report", nightly["report"])
    ]  # fmt: skip
    assert not nightly["asked"]
    own = check_replay(["a"], {}, "backfill__1", SimpleNamespace(run_type=DagRunType.BACKFILL), NIGHT)
    assert own["arguments"][2:4] == ["--day", "2026-11-20"]


def test_a_person_chooses_days_and_jobs() -> None:
    params = {"jobs": ["b"], "from": "2026-11-30", "to": "2026-12-02"}
    found = check_replay(["a", "b"], params, "manual__1", SimpleNamespace(run_type="manual"), NIGHT)
    days = ["--day", "2026-11-30", "--day", "2026-12-01", "--day", "2026-12-02"]
    assert found["arguments"][:-2] == ["--job", "b", *days]
    assert found["asked"]
    one = check_replay(["a"], {"from": "2026-11-30", "to": None}, "manual__1", None, NIGHT)
    assert one["arguments"][2:4] == ["--day", "2026-11-30"]


@pytest.mark.parametrize(
    ("jobs", "params", "says"),
    [
        (["a"], {"jobs": ["c"]}, "no job of this name"),
        ([], {}, "no job is declared"),
        (["a"], {"to": "2026-11-30"}, "without a first one"),
        (["a"], {"from": "2026-11-30", "to": "2026-11-29"}, "not a range of days"),
        (["a"], {"from": "yesterday"}, "not a day"),
    ],
)
def test_what_cannot_be_asked_is_refused(jobs: list[str], params: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        check_replay(jobs, params, "manual__1", None, NIGHT)


def test_days_that_are_the_same_are_good() -> None:
    assert judge_replay(written(SAME), asked=True) == 1


def test_a_difference_fails_the_run_and_the_mail_names_the_first_one() -> None:
    with pytest.raises(Terminal, match=r"status on 2026-11-19: 2 altered.*events 3 of s17") as refused:
        judge_replay(written(SAME, DIFFERS), asked=False)
    assert "lyrebird eventtime verify status --day 2026-11-19" in str(refused.value)
    short = {**SAME, "clean": False, "said": ["  the replay came to nothing only"]}
    with pytest.raises(Terminal, match=r"ended too early.*came to nothing"):
        judge_replay(written(short), asked=False)


def test_a_day_that_the_live_run_has_not_come_to_fails_only_who_asked_for_it() -> None:
    report = written(NOT_YET)
    assert judge_replay(report, asked=False) == 0
    with pytest.raises(Terminal, match="not come to this day"):
        judge_replay(report, asked=True)


def test_a_day_that_cannot_be_replayed_fails_the_nightly_run_as_well() -> None:
    with pytest.raises(Terminal, match=r"status on 2026-11-19: not replayed; an object .* is gone"):
        judge_replay(written(SAME, IMPOSSIBLE), asked=False)


def test_runs_are_kept_and_shown() -> None:
    written(SAME, DIFFERS, NOT_YET)
    page = audit_page("replay", "r1")
    for text in ("the same: 1,204 outputs", "2 altered", "not replayed", "events 3 of s17", "dags/eventtime_replay/"):
        assert text in page
    assert "Event time against its replay" in audits_page(["replay"])


def loaded() -> Any:
    return DagBag(dag_folder=str(ROOT / "dags" / "eventtime_replay.py")).dags["eventtime_replay"]


def test_it_runs_at_night_once_at_a_time_where_a_job_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = ROOT / "include" / "deployment"
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(deployed))
    for text in (path.read_text() for path in deployed.glob("*.yaml")):
        for part in text.split("${")[1:]:
            monkeypatch.setenv(part.split("}")[0].split(":-")[0], "127.0.0.1:1")
    dag = loaded()
    assert dag.schedule.expression == "30 4 * * *"
    assert dag.max_active_runs == 1
    assert dag.get_task("verdict").upstream_task_ids == {"check", "replay"}
    assert dag.params.get_param("jobs").schema["items"]["enum"] == ["scooter_status"]
