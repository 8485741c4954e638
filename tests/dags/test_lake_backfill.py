"""The DAG of backfills: its days, what it makes of Params, and a dry run."""

from __future__ import annotations

import datetime as dt
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction

from include.errors import SettingsError
from include.lake.backfill.run_params import NOTHING_STATUS
from supervision import command
from supervision.first_tasks import check_backfill, unless_dry_run

GROUPS = ["by_date"]
DAY = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag()


def test_airflows_backfill_has_a_run_for_each_day_and_the_scheduler_none(bag: DagBag) -> None:
    dag = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags["lake_backfill"]))
    assert dag.timetable.periodic
    infos = list(dag.iter_dagrun_infos_between(DAY, DAY + dt.timedelta(days=2)))
    assert [info.logical_date for info in infos] == [DAY + dt.timedelta(days=n) for n in range(3)]
    ahead = TimeRestriction(earliest=None, latest=None, catchup=False)
    assert dag.timetable.next_dagrun_info_v2(last_dagrun_info=None, restriction=ahead) is None
    assert dag.timetable.next_dagrun_info_v2(last_dagrun_info=infos[0], restriction=ahead) is None


def test_a_run_of_airflows_backfill_is_of_its_own_day() -> None:
    params = {"topic": "shop.orders", "from": None, "to": None, "version": 2, "source": "raw"}
    run = SimpleNamespace(run_type=DagRunType.BACKFILL)
    found = check_backfill(GROUPS, params, "backfill__2026-11-20T00:00:00+00:00", run, DAY)
    name = found["promote"][found["promote"].index("--run") + 1]
    assert name.startswith("backfill__2026-11-20T00_00_00_00_00-")
    chosen = ["shop.orders", "--from", "2026-11-20", "--version", "2", "--run", name]
    assert found["arguments"] == chosen
    assert found["plan"] == ["lake", "backfill", *chosen, "--dry-run"]
    assert found["promote"] == ["lake", "promote", "shop.orders", "--run", name]
    assert check_backfill(GROUPS, params, "backfill__2026-11-20T00:00:00+00:00", run, DAY) == found


def test_a_person_has_to_say_which_days_as_now_is_none() -> None:
    run = SimpleNamespace(run_type="manual")
    with pytest.raises(SettingsError, match="which days"):
        check_backfill(GROUPS, {"topic": "t"}, "manual__1", run, DAY)
    with pytest.raises(SettingsError, match="which topic"):
        check_backfill(GROUPS, {"from": "2026-11-20"}, "manual__1", run, DAY)
    with pytest.raises(SettingsError, match="no partition group of this name"):
        check_backfill(GROUPS, {"topic": "t", "from": "2026-11-20", "group": "raw"}, "manual__1", run, DAY)


def test_what_a_person_chose_reaches_the_commands() -> None:
    params = {
        "topic": "t",
        "from": None,
        "offsets": ["0:5-10", "1:0-3"],
        "as_of": "2026-11-01T00:00:00Z",
        "source": "kafka",
        "group": "by_date",
        "accept_differences": True,
    }
    found = check_backfill(GROUPS, params, "manual__1", SimpleNamespace(run_type="manual"))
    told = " ".join(found["arguments"])
    assert "--offsets 0:5-10 --offsets 1:0-3 --as-of 2026-11-01T00:00:00Z --source kafka --group by_date" in told
    assert found["promote"][-3:] == ["--group", "by_date", "--accept-differences"]


def test_a_dry_run_ends_behind_the_plan(bag: DagBag, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[str]] = []

    def argv(arguments: list[str]) -> list[str]:
        said.append(list(arguments))
        return [sys.executable, "-c", "print('3 cuts')"]

    monkeypatch.setattr(command, "lyrebird_argv", argv)
    assert unless_dry_run({"dry_run": False})
    conf: dict[str, Any] = {"topic": "t", "from": "2026-11-20", "dry_run": True}
    known(bag)
    run = bag.dags["lake_backfill"].test(run_conf=conf)
    states = {each.task_id: str(each.state) for each in run.get_task_instances()}
    assert states == {
        "check": "success",
        "plan": "success",
        "goes_on": "success",
        "write": "skipped",
        "promote": "skipped",
    }
    assert said[-1][:3] == ["lake", "backfill", "t"]
    assert said[-1][-1] == "--dry-run"


@pytest.mark.parametrize(
    ("run_type", "states"),
    [
        (DagRunType.BACKFILL, ("skipped", "skipped", "skipped", "skipped")),
        (DagRunType.MANUAL, ("failed", "upstream_failed", "upstream_failed", "upstream_failed")),
    ],
)
def test_a_day_without_records_is_skipped_in_a_backfill_and_fails_who_asked_for_it(
    bag: DagBag, monkeypatch: pytest.MonkeyPatch, run_type: DagRunType, states: tuple[str, ...]
) -> None:
    said = f"import sys; print('error: no committed cut has any of it'); sys.exit({NOTHING_STATUS})"
    monkeypatch.setattr(command, "lyrebird_argv", lambda _arguments: [sys.executable, "-c", said])
    known(bag)
    dag = bag.dags["lake_backfill"]
    for task in dag.tasks:
        monkeypatch.setattr(task, "on_failure_callback", [])
    own = run_type == DagRunType.BACKFILL
    found = check_backfill(GROUPS, {"topic": "t", "from": "2026-11-20"}, "r", SimpleNamespace(run_type=run_type), DAY)
    assert found["skips"] is own
    monkeypatch.setattr(dag.get_task("plan"), "skips", own)
    run = dag.test(run_conf={"topic": "t", "from": "2026-11-20"})
    ended = {each.task_id: str(each.state) for each in run.get_task_instances()}
    assert ended["check"] == "success"
    assert tuple(ended[each] for each in ("plan", "goes_on", "write", "promote")) == states


def test_airflow_takes_it_for_a_backfill_and_makes_a_run_of_each_day(bag: DagBag) -> None:
    from airflow.models.backfill import _create_backfill
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    known(bag)
    made = _create_backfill(
        dag_id="lake_backfill",
        from_date=DAY - dt.timedelta(days=400),
        to_date=DAY - dt.timedelta(days=398),
        max_active_runs=2,
        reverse=False,
        dag_run_conf={"topic": "t", "version": 2},
        triggering_user_name=None,
    )
    with create_session() as session:
        runs = list(session.scalars(select(DagRun).where(DagRun.backfill_id == made.id).order_by(DagRun.logical_date)))
        found = [(run.logical_date and run.logical_date.date(), run.run_type, run.conf) for run in runs]
    assert found == [
        (DAY.date() - dt.timedelta(days=before), "backfill", {"topic": "t", "version": 2}) for before in (400, 399, 398)
    ]


def known(bag: DagBag) -> None:
    """Write the DAG into the database."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="backfills"))
        session.commit()
        lazy = LazyDeserializedDAG.from_dag(bag.dags["lake_backfill"])
        SerializedDAG.bulk_write_to_db("backfills", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="backfills", session=session)
