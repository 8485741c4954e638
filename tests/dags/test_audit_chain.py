"""The DAG audit_chain: its command, its verdict with the command of the mail, and its run by Airflow."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.audit.chain.report import together
from include.audit.history import History
from include.audit.nothing import NothingJudged
from include.settings.environment import state_folder
from supervision import command
from supervision.alerts import EndMail
from supervision.chain_audit import check_chain_audit, judge_chain_audit
from supervision.pages.audits import audit_page
from supervision.refusing import NoRetry, refusing
from tests.support.paths import ROOT

GROUPS = ["by_date", "raw"]
FOUND = {
    "fault": "object missing",
    "group": "raw",
    "topic": "t",
    "partition": 3,
    "first": 61,
    "key": "raw/t/offset=0/1_3_00000000000000000061",
    "meaning": "is not there",
}


def loaded() -> Any:
    bag = DagBag(dag_folder=str(ROOT / "dags" / "audit_chain.py"))
    assert bag.import_errors == {}
    return bag.dags["audit_chain"]


def report(findings: list[dict[str, Any]]) -> str:
    return json.dumps({"clean": not findings, "topics": {"t": {"depth": "names", "findings": findings}}})


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def test_the_whole_lake_is_audited_without_a_choice() -> None:
    plan = check_chain_audit(GROUPS, {"topics": [], "groups": [], "deep": False}, run_id="manual__2026-11-02T00:00:00")
    assert plan["arguments"] == ["audit", "chain", "--all", "--report", plan["report"]]


def test_an_unknown_group_fails_the_first_task_at_once() -> None:
    with pytest.raises(AirflowFailException, match="by_day"):
        refusing(check_chain_audit)(GROUPS, {"groups": ["by_day"]}, run_id="r1")


def test_a_run_is_judged_by_its_own_report_only_and_its_mail_has_the_command() -> None:
    plan = check_chain_audit(GROUPS, {}, run_id="r2")
    Path(plan["report"]).write_text(report([FOUND]))
    with pytest.raises(
        NoRetry, match=r"1 finding, the first: object missing \(raw, topic t, partition 3, offset"
    ) as told:
        judge_chain_audit(plan["report"])
    assert told.value.run_next == "lyrebird audit chain t"
    assert check_chain_audit(GROUPS, {}, run_id="r2") == plan
    assert not Path(plan["report"]).exists()


def test_it_runs_nightly_where_there_are_groups_and_is_not_there_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dag = loaded()
    assert dag.schedule.expression == "30 3 * * *"
    assert dag.max_active_runs == 1
    assert dag.get_task("verdict").upstream_task_ids == {"audit", "check"}
    assert dag.get_task("verdict").retries == 0
    (tmp_path / "all.yaml").write_text("alerts: {from: a@localhost, to: [b@localhost]}\n")
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    assert DagBag(dag_folder=str(ROOT / "dags" / "audit_chain.py")).dags == {}


def nothing_yet() -> str:
    group = NothingJudged("raw", "2026-11-02T03:30:00+00:00", "nothing is stored below raw/ yet. Start lake_backup.")
    return json.dumps(together([], [group]))


@pytest.mark.parametrize(
    ("written", "verdict"), [(report([]), "success"), (report([FOUND]), "failed"), (nothing_yet(), "skipped")]
)
def test_what_is_found_fails_the_verdict_alone_and_nothing_skips_it_without_a_mail(
    monkeypatch: pytest.MonkeyPatch, written: str, verdict: str
) -> None:
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    def argv(arguments: list[str]) -> list[str]:
        write = f"open({arguments[-1]!r}, 'w').write({written!r}); print('done')"
        return [sys.executable, "-c", write]

    monkeypatch.setattr(command, "lyrebird_argv", argv)
    initdb()
    dag = loaded()
    mails: list[str] = []
    monkeypatch.setattr(EndMail, "__call__", lambda _self, context: mails.append(context["ti"].task_id))
    with create_session() as session:
        if session.get(DagBundleModel, "audit_chain") is None:
            session.add(DagBundleModel(name="audit_chain"))
            session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("audit_chain", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="audit_chain", session=session)
    run = dag.test(run_conf={"topics": [], "groups": [], "deep": False})
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert states == {"check": "success", "audit": "success", "verdict": verdict}
    assert mails == (["verdict"] if verdict == "failed" else [])


def test_a_lake_in_which_nothing_is_yet_is_skipped_and_its_page_says_so() -> None:
    plan = check_chain_audit(GROUPS, {}, run_id="r1")
    Path(plan["report"]).write_text(nothing_yet())
    with pytest.raises(AirflowSkipException, match=r"group raw.*Start lake_backup"):
        refusing(judge_chain_audit)(plan["report"])
    page = audit_page("chain", "r1")
    assert '<tr class="nothing">' in page
    assert "nothing to judge yet" in page
    assert "Start lake_backup" in page
    assert '<tr class="clean">' not in page
    assert '<tr class="found">' not in page


def test_a_group_that_an_earlier_run_has_judged_is_lost_and_red() -> None:
    plan = check_chain_audit(GROUPS, {}, run_id="r1")
    judged = {"depth": "names", "findings": [], "groups": [{"group": "raw", "commits": 2}]}
    Path(plan["report"]).write_text(json.dumps({"clean": True, "topics": {"t": judged}}))
    assert judge_chain_audit(plan["report"]) == "clean: 1 topic"
    later = check_chain_audit(GROUPS, {}, run_id="r2")
    Path(later["report"]).write_text(nothing_yet())
    with pytest.raises(AirflowFailException, match=r"group raw \(run r1\)"):
        refusing(judge_chain_audit)(later["report"])
    assert '<tr class="found">' in audit_page("chain", "r2")
    assert History.of("chain").run("r2") is not None


def test_groups_with_something_are_judged_and_those_with_nothing_named() -> None:
    plan = check_chain_audit(GROUPS, {}, run_id="r1")
    content = json.loads(report([]))
    content["nothing"] = json.loads(nothing_yet())["nothing"]
    Path(plan["report"]).write_text(json.dumps(content))
    assert judge_chain_audit(plan["report"]) == "clean: 1 topic; nothing yet of group raw"
