"""The DAG lake_finalise: its commands, the asset events of its report, its verdict, and its run by Airflow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from supervision import command
from supervision.finalised_dates import check_finalise, judge_dates
from supervision.refusing import NoRetry, refusing
from tests.support.paths import ROOT

FACTS = {"objects": 2, "records": 9, "size_bytes": 99, "late": []}


def date(day: str, hour: int | None, change: str, edition: int) -> dict[str, Any]:
    folder = f"dt={day}" if hour is None else f"dt={day}/hr={hour:02}"
    key = f"by_date/{folder}/_SUCCESS"
    return {"folder": folder, "date": day, "hour": hour, "change": change, "edition": edition, "key": key, **FACTS}


DATES = [date("2026-11-20", None, "finished", 1), date("2026-11-21", 10, "late", 2)]


def report(dates: list[dict[str, Any]], error: str = "") -> str:
    topics = [{"group": "by_date", "topic": "cdc.shop.orders", "dates": dates, "error": ""}]
    bad = [{"group": "by_date", "topic": "bad", "dates": [], "error": error}] if error else []
    return json.dumps({"topics": [*topics, *bad]})


def loaded() -> Any:
    bag = DagBag(dag_folder=str(ROOT / "dags" / "lake_finalise.py"))
    assert bag.import_errors == {}
    return bag.dags["lake_finalise"]


def test_everything_is_looked_at_without_a_choice_and_acknowledged_by_its_report() -> None:
    plan = check_finalise(["by_date"], {"topics": [], "groups": []}, run_id="scheduled__2026-11-21T10:10:00+00:00")
    assert plan["arguments"] == ["lake", "finalise", "--report", plan["report"]]
    assert plan["acknowledgement"] == ["lake", "finalise", "--acknowledge", plan["report"]]
    chosen = check_finalise(["by_date"], {"topics": ["t"], "groups": ["by_date"]}, run_id="r")
    assert chosen["arguments"][2:5] == ["t", "--group", "by_date"]


@pytest.mark.parametrize(
    ("groups", "params", "words"),
    [
        (["by_date"], {"groups": ["raw"]}, "no partition group of this name"),
        (["by_date"], {"topics": ["t", "t"]}, "named twice"),
        ([], {}, "no partition group is declared"),
    ],
)
def test_what_makes_no_sense_fails_the_first_task_at_once(
    groups: list[str], params: dict[str, Any], words: str
) -> None:
    with pytest.raises(AirflowFailException, match=words):
        refusing(check_finalise)(groups, params, run_id="r1")


def test_reports_of_many_runs_do_not_pile_up() -> None:
    for number in range(110):
        Path(check_finalise(["by_date"], {}, run_id=f"many{number}")["report"]).write_text("{}")
    folder = Path(check_finalise(["by_date"], {}, run_id="last")["report"]).parent
    assert len(list(folder.glob("*.json"))) == 100


def test_a_topic_that_cannot_be_judged_fails_the_verdict_with_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(report([], error="an object of the chain cannot be read"))
    with pytest.raises(NoRetry, match="topic='bad', reason='an object of the chain cannot be read'") as told:
        judge_dates(str(tmp_path / "r.json"))
    assert told.value.run_next == "lyrebird lake finalise --dry-run"
    (tmp_path / "r.json").write_text(report([]))
    assert judge_dates(str(tmp_path / "r.json")) == 1


def test_it_runs_hourly_where_there_are_partition_groups_and_is_not_there_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dag = loaded()
    assert dag.schedule.expression == "10 * * * *"
    assert dag.max_active_runs == 1
    assert dag.get_task("acknowledge").upstream_task_ids == {"announce", "check"}
    assert dag.get_task("announce").upstream_task_ids == {"finalise", "check"}
    assert dag.get_task("verdict").upstream_task_ids == {"finalise", "check"}
    (tmp_path / "all.yaml").write_text("alerts: {from: a@localhost, to: [b@localhost]}\nlake: {raw: {kind: backup}}\n")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    assert DagBag(dag_folder=str(ROOT / "dags" / "lake_finalise.py")).dags == {}


@pytest.mark.parametrize(("error", "verdict"), [("", "success"), ("a hole in the chain", "failed")])
def test_each_date_is_an_event_of_its_topics_asset_and_is_acknowledged_then(
    monkeypatch: pytest.MonkeyPatch, error: str, verdict: str
) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    called: list[list[str]] = []

    def argv(arguments: list[str]) -> list[str]:
        called.append(arguments)
        write = f"open({arguments[-1]!r}, 'w').write({report(DATES, error)!r})" if "--report" in arguments else "0"
        return [sys.executable, "-c", f"{write}; print('done')"]

    monkeypatch.setattr(command, "lyrebird_argv", argv)
    initdb()
    dag = loaded()
    dag.get_task("verdict").on_failure_callback = None
    with create_session() as session:
        session.execute(delete(AssetEvent))
        if session.get(DagBundleModel, "lake_finalise") is None:
            session.add(DagBundleModel(name="lake_finalise"))
            session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("lake_finalise", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="lake_finalise", session=session)
    run = dag.test(run_conf={"topics": [], "groups": []})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    done = dict.fromkeys(("check", "finalise", "announce", "acknowledge"), "success")
    assert states == {**done, "verdict": verdict}
    assert [arguments[2] for arguments in called] == ["--report", "--acknowledge"]
    with create_session() as session:
        events = session.execute(
            select(AssetModel.uri, AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        ).all()
    assert {uri for uri, _ in events} == {"lake://cdc.shop.orders/dt"}
    told = sorted((extra["date"], extra["hour"], extra["change"], extra["edition"]) for _, extra in events)
    assert told == [("2026-11-20", None, "finished", 1), ("2026-11-21", 10, "late", 2)]
