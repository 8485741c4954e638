"""The DAG audit_join: its verdict, what skips it, what is lost, and its run by Airflow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.audit.joins.report import JoinReport
from include.audit.nothing import NothingJudged
from include.settings.environment import state_folder
from supervision.alerts import EndMail
from supervision.audit_tasks import AuditJobOperator
from supervision.join_audit import check_join_audit, judge_join_audit
from supervision.pages.audits import audit_page
from supervision.refusing import refusing
from supervision.spark_operators import SparkJobOperator
from tests.support.paths import ROOT

WHY = "there is no such topic yet (topic='shop.sales'). Start the application join_shop."


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def clean(name: str, **found: int) -> JoinReport:
    keys = {kind: ("7",) for kind in found}
    return JoinReport(name, "shop.sales", "2026-11-25T03:30:07Z", {"shop": "0-1-7"}, 10, 9, found, keys, records=20)


def nothing(name: str) -> NothingJudged:
    return NothingJudged(name, "2026-11-25T03:30:07Z", WHY, "shop.sales")


def written(report: str, *reports: JoinReport | NothingJudged) -> str:
    by_name = {each.audit if isinstance(each, JoinReport) else each.what: each.to_json() for each in reports}
    Path(report).write_text(json.dumps({"audits": by_name}))
    return report


def checked(run: str) -> str:
    return str(check_join_audit(["sales", "owners"], {}, run)["report"])


def test_findings_fail_the_run_and_clean_audits_are_counted() -> None:
    report = checked("r1")
    assert judge_join_audit(written(report, clean("sales"), clean("owners"))) == 2
    with pytest.raises(
        AirflowFailException, match=r"sales: 1 missing \(missing: 7\)\. Run `lyrebird audit join sales`"
    ):
        refusing(judge_join_audit)(written(report, clean("sales", missing=1), clean("owners")))


def test_joins_that_have_not_begun_are_skipped_and_their_page_says_so() -> None:
    with pytest.raises(AirflowSkipException, match=r"sales: .*Start the application join_shop"):
        refusing(judge_join_audit)(written(checked("r1"), nothing("sales"), nothing("owners")))
    page = audit_page("join", "r1")
    assert page.count('<tr class="nothing">') >= 2
    assert "Start the application join_shop" in page
    assert '<tr class="clean">' not in page
    assert '<tr class="found">' not in page


def test_what_is_judged_beside_a_join_that_has_not_begun_gives_the_verdict() -> None:
    report = checked("r1")
    assert judge_join_audit(written(report, clean("sales"), nothing("owners"))) == 1
    with pytest.raises(AirflowFailException, match="1 extra"):
        refusing(judge_join_audit)(written(report, clean("sales", extra=1), nothing("owners")))


def test_a_join_that_an_earlier_run_has_judged_is_lost_and_red() -> None:
    judge_join_audit(written(checked("r1"), clean("sales"), nothing("owners")))
    with pytest.raises(AirflowFailException, match=r"not there any more: sales \(run r1\)") as lost:
        refusing(judge_join_audit)(written(checked("r2"), nothing("sales"), nothing("owners")))
    assert "owners" not in str(lost.value)
    page = audit_page("join", "r2")
    assert "lost: an earlier run has judged it" in page
    assert "nothing to judge yet" in page


def test_what_is_lost_hides_no_finding() -> None:
    judge_join_audit(written(checked("r1"), clean("sales"), clean("owners")))
    with pytest.raises(AirflowFailException, match=r"owners: lost: .*sales: 1 missing \(missing: 7\)") as told:
        refusing(judge_join_audit)(written(checked("r2"), clean("sales", missing=1), nothing("owners")))
    assert "Run `lyrebird status` and `lyrebird audit join sales` to see more." in str(told.value)
    assert "lost: an earlier run has judged it" in audit_page("join", "r2")


def test_a_part_into_which_no_output_falls_is_neither_clean_nor_red() -> None:
    part = replace(clean("sales"), expected=0, held=0, sample=16)
    assert judge_join_audit(written(checked("r1"), part, clean("owners"))) == 1
    page = audit_page("join", "r1")
    assert "incomplete: 0 outputs" in page
    # Once in the run's own rows, once among the runs.
    assert (page.count('<tr class="open">'), page.count('<tr class="found">')) == (2, 0)


def test_a_stack_whose_joins_do_not_run_skips_the_verdict_without_a_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    def job(operator: AuditJobOperator, context: Any) -> None:
        written(list(operator.application_args or ())[-1], nothing("joined_orders"))

    mails: list[str] = []
    monkeypatch.setattr(SparkJobOperator, "execute", job)
    monkeypatch.setattr(EndMail, "__call__", lambda _self, context: mails.append(context["ti"].task_id))
    initdb()
    bag = DagBag(dag_folder=str(ROOT / "dags" / "audit_join.py"))
    assert bag.import_errors == {}
    dag: Any = bag.dags["audit_join"]
    with create_session() as session:
        if session.get(DagBundleModel, "audit_join") is None:
            session.add(DagBundleModel(name="audit_join"))
            session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("audit_join", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="audit_join", session=session)
    run = dag.test(run_conf={"audits": [], "sample": 1})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert states == {"check": "success", "audit": "success", "verdict": "skipped"}
    assert str(run.state) == "success"
    assert mails == []
