"""What a deployment declares of audits of tables, and what their reports come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.audit.expectations.report import ExpectationResult
from include.audit.history import StoredRun
from include.audit.history_rows import rows_of
from include.audit.merkle import run as tables_run
from include.audit.merkle.bases import lake_base
from include.audit.merkle.definition import (
    TableAudit,
    declared_table_audits,
    only_source,
    server_of,
    table_audit,
    tables_meant,
)
from include.audit.merkle.repair import requests_of
from include.audit.merkle.report import RowFinding, TableAuditReport, summary
from include.audit.merkle.rows import DifferingRow
from include.audit.merkle.run import TablesAudit
from include.clock import ManualClock
from include.errors import NothingToJudge, SettingsError, Terminal
from include.lake.tables.delta_log import DeltaLog
from include.log import topics
from include.log.memory import MemoryLog
from include.log.ports import TopicSpec
from include.log.resolved import ResolvedWriter
from include.policy.policy import Policy
from include.record.gtid import MariadbGtidSet
from include.record.position import BinlogPosition, SourcePosition
from include.record.schema import Column, TableSchema
from include.settings.deployment import Deployment
from include.source.definition import declared_sources
from include.source.hashes.columns import ComparedRows
from include.source.state.capture_state import CaptureState

pytestmark = pytest.mark.unit

SOURCE = {"host": "db", "port": 3306, "user": "u", "password": "p", "databases": ["shop"]}


def deployed(folder: Path, audits: dict[str, Any], sources: tuple[str, ...] = ("shop",)) -> Deployment:
    said = {"sources": dict.fromkeys(sources, SOURCE), "table_audits": audits}
    (folder / "d.yaml").write_text(yaml.safe_dump(said))
    return Deployment.load(folder)


def test_a_source_is_audited_as_declared_or_by_the_defaults(tmp_path: Path) -> None:
    deployment = deployed(tmp_path, {"nightly": {"source": "shop", "connections": 7}}, ("shop", "ads"))
    assert table_audit(deployment, "shop").connections == 7
    assert table_audit(deployment, "ads") == TableAudit(source="ads")
    with pytest.raises(SettingsError, match="sho"):
        table_audit(deployment, "sho")
    with pytest.raises(SettingsError, match="say which source"):
        only_source(deployment)


def test_an_audit_of_no_source_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        declared_table_audits(deployed(tmp_path, {"nightly": {"source": "sop"}}))
    assert refused.value.details["path"] == "table_audits.nightly.source"


def test_tables_are_meant_by_patterns() -> None:
    audit = TableAudit(source="shop", tables=("shop.*",), exclude=("*.tmp_*",))
    assert tables_meant(audit, ["shop.b", "shop.a", "shop.tmp_1", "ads.a"]) == ["shop.a", "shop.b"]


def test_a_replica_is_read_under_the_source_s_policy(tmp_path: Path) -> None:
    replica = {"host": "replica", "port": 3307, "user": "r", "password": "q"}
    deployment = deployed(tmp_path, {"nightly": {"source": "shop", "read_from": replica}})
    assert only_source(deployment) == "shop"
    source = declared_sources(deployment)["shop"]
    read = server_of(source, table_audit(deployment, "shop"))
    assert (read.host, read.port, read.user) == ("replica", 3307, "r")
    assert read.captures("shop", "orders")
    assert server_of(source, TableAudit(source="shop")) is source


REPORT = TableAuditReport("shop", "shop.orders", "the topic", "2026-11-25T03:00:00Z", "0-1-7", 10, 1, 1)
COLUMNS = (Column("id", "int"), Column("k", "varchar", length=9, charset="ascii"), Column("v", "int"))
ROWS = ComparedRows.of(
    COLUMNS,
    TableSchema("shop", "orders", COLUMNS, ("id", "k")),
    Policy.declared("accept", {}, ["shop"]).of("shop", "orders"),
)
FOUND = RowFinding.of(DifferingRow("altered", "7;2;\u00e9", ("v",)), ROWS)


FAILED = ExpectationResult(
    "cdc.shop.shop.orders", "cheap", "ExpectColumnMaxToBeBetween", {}, success=False, observed=9
).to_json()


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "clean"),
        ({"found": [FOUND]}, "findings"),
        ({"left_out": 3}, "findings"),
        ({"expected": [FAILED]}, "findings"),
        ({"uncovered": True}, "incomplete"),
        ({"not_compared": {"v": "vector"}}, "incomplete"),
        ({"unsure": 1}, "incomplete"),
        ({"unexplained": 1}, "findings"),
        ({"error": "no version is complete to a position", "incomparable": True}, "incomplete"),
        ({"error": "there is no such topic yet", "nothing": True}, "nothing"),
        ({"error": "SELECT is refused"}, "failed"),
        ({"error": "no answer", "transient": True}, "failed"),
        ({"found": [FOUND], "uncovered": True}, "findings"),
    ],
)
def test_a_verdict_is_clean_only_where_all_was_seen(changed: dict[str, Any], verdict: str) -> None:
    report = TableAuditReport(**{**{f: getattr(REPORT, f) for f in TableAuditReport.__dataclass_fields__}, **changed})
    assert report.verdict == verdict
    assert report.to_json()["verdict"] == verdict
    assert bool(report.next_command) is (verdict == "findings")
    assert report.lines()[0].startswith("shop.orders: ")


def test_findings_name_the_key_by_its_columns() -> None:
    assert FOUND.key == {"id": "7", "k": "\u00e9"}
    assert str(FOUND) == "altered: id 7, k \u00e9 in v"


def test_what_is_wrong_is_read_again_by_its_keys_a_thousand_at_once() -> None:
    found = [RowFinding.of(DifferingRow("missing", f"{n};1;x"), ROWS) for n in range(2_500)]
    asked, whole = requests_of("run", "shop.orders", found, whole=False, now_us=7, by="me")
    assert not whole
    assert [(each.kind, len(each.keys)) for each in asked] == [("reread", 1000), ("reread", 1000), ("reread", 500)]
    assert len({each.id for each in asked}) == 3
    assert '{"id":"7","k":"x"}' in asked[2].keys
    again, _ = requests_of("run", "shop.orders", found, whole=False, now_us=8, by="me")
    assert [(each.id, each.keys) for each in again] == [(each.id, each.keys) for each in asked]
    fewer, _ = requests_of("run", "shop.orders", found[:-1], whole=False, now_us=8, by="me")
    assert fewer[-1].id != asked[-1].id, "other rows are another request"


@pytest.mark.parametrize(("key", "more"), [("7;N", False), ("7;3;?FF", False), ("7;1;x", True)])
def test_a_table_is_read_whole_where_its_rows_cannot_be_named_or_are_too_many(key: str, more: bool) -> None:
    found = [RowFinding.of(DifferingRow("missing", key), ROWS)]
    (asked,), whole = requests_of("run", "shop.orders", found, whole=more, now_us=7, by="me")
    assert whole
    assert asked.id.startswith("run.whole.")
    assert (asked.tables, asked.keys) == (("shop.orders",), ())


def test_a_repair_is_told_with_what_was_wrong_before() -> None:
    said = {"requests": ["run.0"], "rows": 3, "whole": False, "found": {"altered": 2, "extra": 1}}
    report = replace(REPORT, repaired=said)
    assert "  before the repair: 2 altered, 1 extra; capture read 3 rows again" in report.lines()
    assert report.verdict == "clean"
    assert replace(report, found=[FOUND]).next_command == "lyrebird capture reread --source shop shop.orders"


def test_a_repair_that_did_not_come_about_leaves_what_was_found() -> None:
    said = {"requests": [], "rows": 0, "whole": False, "found": {"altered": 1}, "error": "nobody answers"}
    report = replace(REPORT, repaired=said, found=[FOUND])
    assert report.verdict == "findings"
    assert "  the repair did not come about: nobody answers" in report.lines()
    assert report.next_command == "lyrebird capture status --source shop"


@pytest.mark.parametrize("kind", ["text", "blob"])
def test_a_key_that_is_hashed_names_no_row(kind: str) -> None:
    columns = (Column("k", kind, charset="utf8mb4" if kind == "text" else None), Column("v", "int"))
    policy = Policy.declared("accept", {}, ["shop"]).of("shop", "t")
    rows = ComparedRows.of(columns, TableSchema("shop", "t", columns, ("k",)), policy)
    assert not RowFinding.of(DifferingRow("altered", "5d41402abc4b2a76b9719d911017c592", ("v",)), rows).named


def test_a_table_whose_key_is_all_of_its_columns_has_one_all_the_same() -> None:
    columns = (Column("a", "int"), Column("b", "int"))
    policy = Policy.declared("accept", {}, ["shop"]).of("shop", "t")
    rows = ComparedRows.of(columns, TableSchema("shop", "t", columns, ("a", "b")), policy)
    assert RowFinding.of(DifferingRow("missing", "1;2"), rows).named
    without = ComparedRows.of(columns, TableSchema("shop", "t", columns, ("a", "b")), policy, keyless=True)
    assert not RowFinding.of(DifferingRow("missing", "1;2"), without).named


def test_several_tables_come_to_one_line() -> None:
    assert summary([REPORT, REPORT]) == "2 tables: 2 clean (shop at 0-1-7)"
    assert summary([]) == "0 tables: none"
    missing = replace(REPORT, position="", nothing=True, error="there is no such topic yet")
    assert summary([REPORT, missing]) == "2 tables: 1 nothing, 1 clean (shop at 0-1-7)"
    assert missing.lines() == ["shop.orders: nothing to judge: there is no such topic yet"]
    (row,) = rows_of("table", StoredRun("run", 0, {"tables": {"shop shop.orders": missing.to_json()}}))
    assert (row.what, row.said, row.clean, row.nothing) == ("shop.orders", "nothing to judge yet", False, True)


def test_an_empty_table_whose_copy_is_made_of_no_record_has_judged_nothing() -> None:
    empty = replace(REPORT, rows=0)
    assert empty.judging(0).verdict == "nothing"
    assert empty.judging(7) == empty
    assert REPORT.judging(0) == REPORT
    uncovered = replace(empty, uncovered=True)
    assert uncovered.judging(0) == uncovered
    some = replace(empty, where="id > 7").judging(0)
    assert (some.verdict, some.error) == (
        "incomplete",
        "no row of the table has id > 7, and its copy is made of no record",
    )
    assert replace(empty, where="id > 7").judging(7).verdict == "clean"


def test_a_table_that_is_meant_and_not_shown_is_gone_and_a_recorded_drop_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {**SOURCE, "filter": {"secret": None}}
    said = {
        "kafka": {"bootstrap": "127.0.0.1:9"},
        "sources": {"shop": source},
        "table_audits": {"nightly": {"source": "shop", "exclude": ["shop.tmp_*"]}},
    }
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(said))
    deployment, log = Deployment.load(tmp_path), MemoryLog()
    monkeypatch.setattr(tables_run, "KafkaReader", lambda *_: log.reader())
    monkeypatch.setattr(tables_run, "KafkaAdmin", lambda *_: log.admin())
    audit = TablesAudit(None, deployment, table_audit(deployment, "shop"), ManualClock())

    def gone(*, told: bool) -> dict[str, str]:
        names = ("shop.orders", "shop.users", "shop.secret", "shop.tmp_1", "ads.clicks")
        reports = audit.gone(dict.fromkeys(names, told))
        assert {each.verdict for each in reports} <= {"nothing"}
        return {each.table: each.error for each in reports}

    # Where capture has said nothing, it has recorded no drop.
    assert [*gone(told=True)] == ["shop.orders", "shop.users"]
    topic = topics.source_resolved("shop")
    log.admin().ensure(TopicSpec(topic, 1, topics.policy(topic)))
    writer = log.writer("w")
    writer.begin()
    _, records = ResolvedWriter("shop", None, {}).records(
        {},
        version=1,
        position=SourcePosition("mariadb", MariadbGtidSet({0: (1, 7)}), BinlogPosition("bin.000001", 4), 7),
        now_us=0,
        uncovered=(),
        state=CaptureState(tables={"shop.orders": 1}).to_json(),
    )
    for key, value in records:
        writer.append(topic, key, value, partition=0)
    writer.commit()
    first, again = gone(told=False), gone(told=True)
    assert "capture has recorded no drop of it" in first["shop.orders"]
    assert "as capture has recorded" in first["shop.users"]
    assert [*again] == ["shop.orders"]


def test_a_lake_table_without_a_version_is_lost_where_readers_were_sent_to_it(tmp_path: Path) -> None:
    log = DeltaLog(str(tmp_path / "g1"), {}, ManualClock())
    with pytest.raises(NothingToJudge, match="has no version yet"):
        lake_base(log, 1, "cdc.shop.shop.orders", "shop")
    with pytest.raises(Terminal, match="that readers are sent to is gone") as lost:
        lake_base(log, 1, "cdc.shop.shop.orders", "shop", serves=True)
    assert not isinstance(lost.value, NothingToJudge)
    assert "lyrebird table rebuild cdc.shop.shop.orders" in lost.value.fix
