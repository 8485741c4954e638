"""The DAG audit_search: what it runs, verdict and expectations each by a task of its own, and their mails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from include.audit.nothing import NothingJudged
from include.audit.search.report import together as reported
from include.settings.environment import state_folder
from supervision import alerts
from supervision.alerts import EndMail
from supervision.audit_tasks import AuditJobOperator, judge_expectation
from supervision.pages.audits import audit_page
from supervision.refusing import NoRetry, refusing
from supervision.search_audit import check_search_audit, judge_search_audit
from supervision.spark_operators import SparkJobOperator
from tests.support.paths import ROOT

TOTALS, ONCE = "assembled_order.expect_totals_add_up", "assembled_order.expect_each_order_once"
WRONG = {
    "topic": "assembled_order",
    "name": "totals_add_up",
    "kind": "ExpectColumnPairValuesToBeEqual",
    "arguments": {"column_A": "total_price", "column_B": "lines_total"},
    "success": False,
    "checked": 500,
    "unexpected": 1,
    "observed": None,
    "examples": [{"key": "17", "values": {"total_price": "9.25", "lines_total": "8.25"}}],
    "problem": "",
}
RIGHT = {**WRONG, "success": True, "unexpected": 0, "examples": []}
DOUBLED = {**RIGHT, "name": "each_order_once", "kind": "ExpectColumnValuesToBeUnique", "arguments": {}}


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def loaded() -> Any:
    bag = DagBag(dag_folder=str(ROOT / "dags" / "audit_search.py"))
    assert bag.import_errors == {}
    return bag.dags["audit_search"]


def result(*results: dict[str, Any]) -> dict[str, Any]:
    return {"audit": "assembled_order", "at": "2026-11-02T02:31:00Z", "topics": [], "results": list(results)}


def test_a_run_plans_the_audit_and_its_expectations_and_leaves_nothing_of_an_earlier_try() -> None:
    plan = check_search_audit(["a", "b/c"], ["b/c"], {"audits": []}, run_id="manual__2026-11-02T00:00:00+00:00")
    assert plan["audits"] == ["a", "b/c"]
    expecting = ["--expectations", "b/c", plan["result b/c"]]
    assert plan["arguments"] == ["--audit", "a", "--audit", "b/c", *expecting, "--report", plan["report"]]
    assert plan["expectations b/c"] == ["--audit", "b/c", "--report", plan["report"], "--result", plan["result b/c"]]
    Path(plan["report"]).write_text(json.dumps({"audits": {"a": {"findings": 3}}}))
    Path(plan["result b/c"]).write_text(json.dumps(result()))
    with pytest.raises(AirflowFailException, match=r"3 findings.*lyrebird audit search a"):
        refusing(judge_search_audit)(plan["report"])
    assert check_search_audit(["a", "b/c"], ["b/c"], {}, run_id="manual__2026-11-02T00:00:00+00:00") == plan
    assert not Path(plan["report"]).exists()
    assert not Path(plan["result b/c"]).exists()


def test_a_failed_expectation_is_named_with_documents_and_a_command(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result(WRONG, DOUBLED)))
    with pytest.raises(NoRetry) as told:
        judge_expectation(str(file), "assembled_order", "totals_add_up", assembled=True)
    assert str(told.value) == (
        "expectation totals_add_up of assembled_order failed (ExpectColumnPairValuesToBeEqual): "
        "1 of 500 documents, e.g. 17 (total_price 9.25, lines_total 8.25)"
    )
    assert told.value.run_next == "lyrebird documents assemble --topic assembled_order --key 17"
    assert "500 documents" in judge_expectation(str(file), "assembled_order", "each_order_once", assembled=True)
    with pytest.raises(NoRetry) as told:
        judge_expectation(str(file), "assembled_order", "totals_add_up", assembled=False)
    assert told.value.run_next == "lyrebird audit history --audit assembled_order"
    with pytest.raises(AirflowFailException, match="does not have this expectation"):
        refusing(judge_expectation)(str(file), "assembled_order", "newly_declared", assembled=False)


def test_it_runs_nightly_and_each_expectation_is_a_task_behind_the_audit() -> None:
    dag = loaded()
    assert dag.schedule.expression == "30 2 * * *"
    assert dag.max_active_runs == 1
    assert dag.get_task("verdict").upstream_task_ids == {"audit", "check"}
    assert dag.get_task("assembled_order.expectations").upstream_task_ids == {"audit", "check"}
    for name in (TOTALS, ONCE):
        verdict = dag.get_task(name)
        assert verdict.upstream_task_ids == {"assembled_order.expectations", "check"}
        assert verdict.retries == 0
        assert verdict.on_failure_callback
    (link,) = dag.get_task(TOTALS).operator_extra_links
    key = SimpleNamespace(dag_id="audit_search", run_id="manual__2026-11-02T00:00:00+00:00")
    assert link.get_link(dag.get_task(TOTALS), ti_key=key).startswith("lyrebird/audits/search/manual__2026-11-02T00%3A")


@pytest.fixture
def known_to_airflow() -> Any:
    """The DAG, in the database of these tests."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    dag = loaded()
    with create_session() as session:
        if session.get(DagBundleModel, "audit_search") is None:
            session.add(DagBundleModel(name="audit_search"))
            session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("audit_search", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="audit_search", session=session)
    return dag


@pytest.mark.parametrize(
    ("findings", "totals", "failed", "together"),
    [(0, RIGHT, set(), True), (0, WRONG, {TOTALS}, True), (0, WRONG, {TOTALS}, False), (2, RIGHT, {"verdict"}, True)],
    ids=["clean", "a wrong total", "a wrong total in a job of its own", "a missing document"],
)
def test_each_failure_is_its_own_tasks_and_is_mailed_once(
    known_to_airflow: Any, monkeypatch: pytest.MonkeyPatch, findings: int, totals: dict[str, Any], failed: set[str],
    together: bool,
) -> None:  # fmt: skip
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    mails: list[str] = []
    jobs: list[str] = []
    found = {"findings": findings, "mode": "digest", "missing": ["17", "18"][:findings], "window": {"0": 9}}

    def job(operator: AuditJobOperator, context: Any) -> None:
        """What spark-submit would have left behind."""
        given = list(operator.application_args or ())
        jobs.append(operator.task_id)
        if operator.task_id == "audit":
            Path(given[-1]).write_text(json.dumps({"audits": {"assembled_order": found}}))
            if together:
                file = given[given.index("--expectations") + 2]
                Path(file).write_text(json.dumps(result(totals, DOUBLED)))
        else:
            Path(given[-1]).write_text(json.dumps(result(totals, DOUBLED)))

    monkeypatch.setattr(SparkJobOperator, "execute", job)
    monkeypatch.setattr(alerts, "post", lambda mail: mails.append(f"{mail.subject}\n{mail.html}"))
    run = known_to_airflow.test(run_conf={"audits": [], "mode": "digest", "repair": False})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    links: Any = XComModel.get_many(run_id=run.run_id, key="_link_AuditResultLink")
    with create_session() as session:
        linked = {each.task_id for each in session.scalars(links)}
    assert linked == {"audit", "verdict", "assembled_order.expectations", TOTALS, ONCE}
    assert {name for name, state in states.items() if state != "success"} == failed
    assert len(mails) == len(failed)
    # The audit's session serves the expectations, too.
    assert jobs == ["audit"] + ([] if together else ["assembled_order.expectations"])
    if TOTALS in failed:
        assert mails[0].startswith(
            f"[lyrebird] FAILED audit_search.{TOTALS}: expectation totals_add_up of assembled_order"
        )
        assert "17 (total_price 9.25, lines_total 8.25)" in mails[0]
        assert "lyrebird documents assemble --topic assembled_order --key 17" in mails[0]
    if "verdict" in failed:
        assert "2 findings. assembled_order (digest): 2 missing (missing: 17, 18)" in mails[0]
        assert "lyrebird audit search assembled_order" in mails[0]


def test_an_index_in_which_nothing_is_yet_skips_verdict_and_expectations_without_a_mail(
    known_to_airflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails: list[str] = []
    why = "no index serves this alias yet. Start the application index_orders, which makes one."

    def job(operator: AuditJobOperator, context: Any) -> None:
        given = list(operator.application_args or ())
        nothing = NothingJudged("assembled_order", "2026-11-02T02:30:00Z", why, "assembled_order")
        Path(given[-1]).write_text(json.dumps(reported([nothing])))
        asked = {**result(), "nothing": ["assembled_order"]}
        Path(given[given.index("--expectations") + 2]).write_text(json.dumps(asked))

    monkeypatch.setattr(SparkJobOperator, "execute", job)
    monkeypatch.setattr(EndMail, "__call__", lambda _self, context: mails.append(context["ti"].task_id))
    run = known_to_airflow.test(run_conf={"audits": [], "mode": "digest", "repair": False})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert {name for name, state in states.items() if state == "skipped"} == {"verdict", TOTALS, ONCE}
    assert str(run.state) == "success"
    assert mails == []
    page = audit_page("search", run.run_id)
    assert page.count('<tr class="nothing">') >= 2
    assert why in page


def test_an_index_that_an_earlier_run_has_judged_is_lost() -> None:
    first = check_search_audit(["a", "b"], [], {}, run_id="before")
    Path(first["report"]).write_text(json.dumps({"audits": {"a": {"findings": 0}, "b": {"findings": 0}}}))
    assert judge_search_audit(first["report"]) == 2
    plan = check_search_audit(["a", "b"], [], {}, run_id="after")
    nothing = {name: NothingJudged(name, "now", "no index serves this alias yet").to_json() for name in ("b", "new")}
    Path(plan["report"]).write_text(json.dumps({"audits": {"a": {"findings": 0}, **nothing}}))
    with pytest.raises(AirflowFailException, match=r"not there any more: b \(run before\)"):
        refusing(judge_search_audit)(plan["report"])
    page = audit_page("search", "after")
    assert "lost: an earlier run has judged it" in page
    assert "nothing to judge yet" in page


def test_what_is_judged_beside_nothing_gives_the_verdict() -> None:
    plan = check_search_audit(["fresh", "new"], [], {}, run_id="partly")
    nothing = NothingJudged("new", "now", "no index serves this alias yet").to_json()
    Path(plan["report"]).write_text(json.dumps({"audits": {"fresh": {"findings": 0}, "new": nothing}}))
    assert judge_search_audit(plan["report"]) == 1
    Path(plan["report"]).write_text(json.dumps({"audits": {"fresh": {"findings": 3}, "new": nothing}}))
    with pytest.raises(AirflowFailException, match="3 findings"):
        refusing(judge_search_audit)(plan["report"])


def test_mode_and_repair_are_asked_of_a_person() -> None:
    params = loaded().params
    assert params.get_param("mode").schema["enum"] == ["digest", "bisect"]
    asked = {"audits": [], "mode": "bisect", "repair": True}
    plan = check_search_audit(["a"], [], asked, run_id="r")
    assert plan["arguments"] == ["--audit", "a", "--mode", "bisect", "--repair", "--report", plan["report"]]


def test_expectations_of_an_audit_that_was_not_asked_for_are_skipped(known_to_airflow: Any) -> None:
    operator = known_to_airflow.get_task("assembled_order.expectations")
    operator.audits = ["another"]
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="another"):
        operator.execute({})
