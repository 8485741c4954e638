"""The DAG audit_tables: a job for each table, one verdict with keys and commands, and its run by Airflow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.audit.history import History
from include.audit.merkle.report import RowFinding, TableAuditReport
from include.audit.merkle.tree import Tree
from include.errors import Terminal
from include.settings.environment import state_folder
from include.source.hashes.sums import HashSum
from supervision.audit_tasks import AuditJobOperator
from supervision.pages.audits import audit_page
from supervision.refusing import refusing
from supervision.table_audit import check_table_audit, judge_table_audit
from tests.support.paths import ROOT

LOST = RowFinding("altered", {"id": "77"}, ("v",))
TREE = Tree(2, {0: HashSum(5, 1), 1: HashSum(4, 7), 3: HashSum(6, 9)}).to_json()


def tables_of(source: str, names: tuple[str, ...]) -> list[str]:
    return [f"{source}.{name}" for name in names or ("orders", "users")]


def report(table: str, **said: Any) -> TableAuditReport:
    more = {"rows": 15, "ranges": 3, "leaves": 3, "position": "0-1-7", "tree": TREE, **said}
    return TableAuditReport("shop", table, "the topic", "2026-11-25T04:00:07Z", **more)


def written(job: list[str], **said: Any) -> None:
    found = report(job[3], **said)
    Path(job[-1]).write_text(json.dumps({"tables": {found.table: found.to_json()}}))


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    yield
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def checked(run: str, **params: Any) -> list[list[str]]:
    return check_table_audit(["shop"], params, run, tables_of)


def test_each_table_has_a_job_of_its_own_that_begins_at_the_tree_of_the_run_before() -> None:
    first = checked("r1")
    assert [job[:4] for job in first] == [
        ["--source", "shop", "--table", "shop.orders"],
        ["--source", "shop", "--table", "shop.users"],
    ]
    assert "--before" not in first[0]
    for job in first:
        written(job)
    assert judge_table_audit(first, "r1") == 2
    again = checked("r2")
    assert again[0][4:6] == ["--before", str(History.of("table").report("r1"))]


def test_what_a_person_chooses_reaches_each_job() -> None:
    (job,) = checked(
        "r1",
        source="ads",
        tables=["clicks"],
        against="lake",
        where="id > 7",
        date_column="day",
        date_from="2026-11-01",
        date_until="2026-11-03",
        repair=True,
    )
    assert job[:4] == ["--source", "ads", "--table", "ads.clicks"]
    assert job[4:6] == ["--against", "lake"]
    assert job[6:8] == ["--where", "(id > 7) AND (`day` >= '2026-11-01' AND `day` < '2026-11-03')"]
    assert job[8:10] == ["--repair", "r1"]


@pytest.mark.parametrize(
    "params",
    [
        {"where": "id > 7"},
        {"tables": ["a"], "where": "id > SLEEP(7)"},
        {"tables": ["a"], "date_from": "2026-11-01"},
        {"tables": ["a"], "date_column": "day", "date_from": "2026-11-03", "date_until": "2026-11-01"},
    ],
)
def test_half_a_choice_fails_the_first_task_at_once(params: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException):
        refusing(check_table_audit)(["shop"], params, "r1", tables_of)
    with pytest.raises(AirflowFailException, match="no source is audited"):
        refusing(check_table_audit)([], {}, "r1", tables_of)


def test_the_mail_names_keys_columns_commands_and_tables_that_were_not_looked_at() -> None:
    jobs = checked("r1", tables=["orders", "users", "lines"])
    written(jobs[0], found=[LOST])
    written(jobs[1], error="the server is away", transient=True, tree={})
    with pytest.raises(Terminal) as told:
        judge_table_audit(jobs, "r1")
    assert "shop.orders: 1 altered (altered: id 77 in v)" in told.value.message
    assert "not looked at: shop shop.lines (no report of it); shop shop.users (the server is away)" in (
        told.value.message
    )
    assert "lyrebird audit tables --source shop --table shop.orders --repair" in str(told.value.fix)


def test_tables_of_one_name_at_two_sources_are_two() -> None:
    jobs = check_table_audit(["eu", "us"], {"tables": ["orders"]}, "r1", tables_of=lambda *_: ["shop.orders"])
    for job, found in zip(jobs, ([LOST], []), strict=True):
        said = replace(report("shop.orders", found=found), source=job[1])
        Path(job[-1]).write_text(json.dumps({"tables": {said.table: said.to_json()}}))
    with pytest.raises(Terminal, match="altered: id 77 in v") as told:
        judge_table_audit(jobs, "r1")
    assert "--source eu --table shop.orders --repair" in str(told.value.fix)
    assert "us" not in str(told.value.fix)
    Path(jobs[1][-1]).unlink()
    with pytest.raises(Terminal, match=r"not looked at: us shop\.orders"):
        judge_table_audit(jobs, "r1")


def test_a_table_that_could_not_be_read_is_red_and_one_that_cannot_be_compared_is_not() -> None:
    jobs = checked("r1", tables=["orders"])
    written(jobs[0], error="SELECT is refused", tree={})
    with pytest.raises(Terminal, match="SELECT is refused"):
        judge_table_audit(jobs, "r1")
    written(jobs[0], error="its engine has no snapshots", incomparable=True, tree={})
    assert judge_table_audit(jobs, "r1") == 0


def test_what_cannot_be_compared_is_not_clean_and_not_red() -> None:
    jobs = checked("r1")
    written(jobs[0])
    written(jobs[1], not_compared={"v": "a vector"})
    assert judge_table_audit(jobs, "r1") == 1
    page = audit_page("table", "r1")
    assert "incomplete: 15 rows" in page
    assert "not compared: v: a vector" in page
    assert (page.count('<tr class="open">'), page.count('<tr class="found">')) == (2, 0)


NOTHING = {"error": "there is no such topic yet", "nothing": True, "tree": {}, "rows": 0, "position": ""}


def test_tables_without_a_copy_are_skipped_and_named_beside_others() -> None:
    jobs = checked("r1")
    for job in jobs:
        written(job, **NOTHING)
    with pytest.raises(AirflowSkipException, match=r"nothing to judge: shop shop\.orders: there is no such topic yet"):
        refusing(judge_table_audit)(jobs, "r1")
    page = audit_page("table", "r1")
    assert page.count('<tr class="nothing">') >= 2
    assert (page.count('<tr class="found">'), page.count('<tr class="clean">')) == (0, 0)
    written(jobs[0])
    assert judge_table_audit(jobs, "r1") == 1
    written(jobs[0], found=[LOST])
    with pytest.raises(AirflowFailException, match="altered: id 77 in v"):
        refusing(judge_table_audit)(jobs, "r1")


def test_a_table_that_was_not_looked_at_is_red_where_no_other_has_a_copy() -> None:
    jobs = checked("r1")
    written(jobs[0], **NOTHING)
    with pytest.raises(AirflowFailException, match=r"not looked at: shop shop\.users \(no report of it\)"):
        refusing(judge_table_audit)(jobs, "r1")


def test_a_table_that_an_earlier_run_has_judged_is_lost_and_red() -> None:
    first = checked("r1")
    for job in first:
        written(job)
    judge_table_audit(first, "r1")
    jobs = checked("r2")
    written(jobs[0], **NOTHING)
    written(jobs[1])
    with pytest.raises(AirflowFailException, match=r"not there any more: shop shop\.orders \(run r1\)"):
        refusing(judge_table_audit)(jobs, "r2")
    assert "lost: an earlier run has judged it" in audit_page("table", "r2")
    written(jobs[1], found=[LOST])
    with pytest.raises(AirflowFailException, match=r"shop\.orders: lost: an earlier run has judged it .*id 77 in v"):
        refusing(judge_table_audit)(jobs, "r2")


def gone(source: str, told: Mapping[str, bool]) -> list[TableAuditReport]:
    why = {**NOTHING, "error": "the server does not show the table any more"}
    return [report(table, **why) for table in told if source == "shop"]


def test_tables_that_dropped_out_of_what_the_server_shows_are_lost_and_red() -> None:
    first = checked("r1")
    for job in first:
        written(job)
    judge_table_audit(first, "r1")
    some = check_table_audit(["shop"], {}, "r2", lambda *_: ["shop.users"], gone)
    assert [job[3] for job in some] == ["shop.users"]
    written(some[0])
    with pytest.raises(AirflowFailException, match=r"any more: shop shop\.orders \(run r1\): the server does not show"):
        refusing(judge_table_audit)(some, "r2")
    page = audit_page("table", "r2")
    assert "lost: an earlier run has judged it" in page
    # The whole database: no table is left to audit.
    none = check_table_audit(["shop"], {}, "r3", lambda *_: [], gone)
    assert none == []
    with pytest.raises(AirflowFailException, match=r"shop shop\.orders \(run r1\): .*shop shop\.users \(run r2\)"):
        refusing(judge_table_audit)(none, "r3")


def test_who_misses_tables_is_told_which_were_told_before_and_not_where_a_person_chose_some() -> None:
    first = checked("r1")
    written(first[0])
    written(first[1], **{**NOTHING, "error": "has met none"})
    judge_table_audit(first, "r1")
    asked: list[tuple[str, dict[str, bool]]] = []

    def noted(source: str, told: Mapping[str, bool]) -> list[TableAuditReport]:
        asked.append((source, dict(told)))
        return gone(source, told)

    for run in ("r2", "r3"):
        jobs = check_table_audit(["ads", "shop"], {}, run, lambda *_: [], noted)
        with pytest.raises(Terminal, match=r"shop shop\.orders \(run r1\)"):
            judge_table_audit(jobs, run)
    assert asked == [("shop", {"shop.orders": False}), ("shop", {"shop.orders": True})]
    check_table_audit(["shop"], {"tables": ["users"]}, "r4", lambda *_: ["shop.users"], noted)
    check_table_audit(["ads"], {}, "r5", lambda *_: [], noted)
    assert len(asked) == 2


def test_a_run_that_finds_no_table_has_judged_nothing() -> None:
    jobs = check_table_audit(["shop"], {}, "r1", tables_of=lambda *_: [])
    with pytest.raises(AirflowSkipException, match="nothing of it is there yet"):
        refusing(judge_table_audit)(jobs, "r1")


def test_a_runs_page_draws_the_tree_with_what_differed_and_what_changed() -> None:
    jobs = checked("r1", tables=["orders"])
    written(jobs[0], found=[LOST], wrong=[1], changed=[3])
    with pytest.raises(Terminal):
        judge_table_audit(jobs, "r1")
    page = audit_page("table", "r1")
    assert page.count("<rect ") == 4 + 7
    # The root and the half of leaf 1 are red as it is; the other half is as its changed leaf.
    assert (page.count('fill="#c33"'), page.count('fill="#e0a030"'), page.count('fill="#5b9a68"')) == (4, 3, 2)
    assert "<title>15 rows: differed from the copy</title>" in page
    assert 'href="dags/audit_tables/runs/r1"' in page
    assert "shop 0-1-7" in page


def test_it_runs_nightly_where_audits_are_declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def loaded() -> Any:
        bag = DagBag(dag_folder=str(ROOT / "dags" / "audit_tables.py"))
        assert bag.import_errors == {}
        return bag.dags["audit_tables"]

    assert loaded().schedule is None
    said = "alerts: {from: a@localhost, to: [b@localhost]}\nsources: {shop: {}}\ntable_audits: {n: {source: shop}}\n"
    (tmp_path / "all.yaml").write_text(said)
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    dag = loaded()
    assert dag.schedule.expression == "0 4 * * *"
    assert dag.get_task("verdict").upstream_task_ids == {"audit", "check"}
    dag.params.validate()


@pytest.mark.parametrize(
    ("said", "verdict"), [({"found": []}, "success"), ({"found": [LOST]}, "failed"), (NOTHING, "skipped")]
)
def test_what_is_found_fails_the_verdict_alone_and_nothing_skips_it(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], verdict: str
) -> None:
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    from supervision import table_audit

    monkeypatch.setattr(table_audit, "_tables_of", tables_of)
    monkeypatch.setattr(AuditJobOperator, "execute", lambda self, context: written(self.application_args, **said))
    initdb()
    dag = DagBag(dag_folder=str(ROOT / "dags" / "audit_tables.py")).dags["audit_tables"]
    dag.get_task("verdict").on_failure_callback = None
    with create_session() as session:
        if session.get(DagBundleModel, "audit_tables") is None:
            session.add(DagBundleModel(name="audit_tables"))
            session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("audit_tables", None, [lazy], None, session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="audit_tables", session=session)
    run = dag.test(run_conf={"source": "shop"})
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in run.get_task_instances()}
    assert states == {
        ("check", -1): "success",
        ("audit", 0): "success",
        ("audit", 1): "success",
        ("verdict", -1): verdict,
    }
