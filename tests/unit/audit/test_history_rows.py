"""Rows of the history: verdict, findings by key, effort, position, and what to run now."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from include.audit.history import History, StoredRun
from include.audit.history_rows import rows_of
from include.cli.audit.history import command

CLEAN = {
    "audit": "orders", "topic": "docs", "mode": "digest", "at": "2026-11-02T02:30:00.000000+00:00",
    "window": {"0": 7, "10": 1, "2": 3}, "position": {"gtids": "0-1-9", "file": "bin.1"}, "expected": 1200,
    "missing": [], "extra": [], "stale": [], "altered": [], "requests": 3, "findings": 0, "next_command": "",
    "scrub": {"requests": 2},
}  # fmt: skip
DIRTY = {
    **CLEAN, "missing": [str(n) for n in range(7)], "stale": ["x"], "findings": 8,
    "next_command": "lyrebird audit search orders --repair",
}  # fmt: skip
RESULT = {
    "topic": "docs", "name": "totals", "kind": "ExpectX", "arguments": {}, "success": False, "checked": 9,
    "unexpected": 1, "observed": None, "examples": [{"key": "17", "values": {}}], "problem": "",
}  # fmt: skip
EXPECTED = {
    "audit": "orders", "at": "2026-11-02T02:31:00.000000+00:00", "failed": 1,
    "topics": [{"topic": "docs", "window": {"0": 7}, "documents": 9, "unreadable": 0, "left_out": []}],
    "results": [RESULT, {**RESULT, "name": "once", "success": True}],
}  # fmt: skip
CHAIN = {
    "topics": {
        "cdc": {
            "at": "2026-11-02T03:30:00+00:00", "depth": "names", "next_command": "lyrebird lake restore",
            "groups": [{"group": "raw", "heads": {"id": {"0": 7}}, "commits": 2, "objects": 1}],
            "findings": [{"fault": "object missing", "group": "raw", "key": "raw/1", "meaning": "is not there"}],
        }
    }
}  # fmt: skip


def test_a_clean_audit_says_what_it_looked_at_and_up_to_where() -> None:
    (row,) = rows_of("search", StoredRun("r", 0, {"audits": {"orders": CLEAN}}))
    assert (row.what, row.clean, row.said) == ("orders (digest)", True, "clean: 1,200 documents")
    assert (row.effort, row.position) == ("3 requests, 2 requests of the scrub", "0-1-9; offsets 0:7, 2:3, 10:1")
    assert (row.next_command, row.details) == ("", ())


def test_findings_are_counted_by_kind_and_named_by_key() -> None:
    (row,) = rows_of("search", StoredRun("r", 0, {"audits": {"orders": DIRTY}}))
    assert (row.clean, row.said) == (False, "7 missing, 1 stale")
    assert row.details == ("missing: 0, 1, 2, 3, 4 and 2 more", "stale: x")
    assert row.next_command == "lyrebird audit search orders --repair"
    (row,) = rows_of(
        "search", StoredRun("r", 0, {"audits": {"orders": {**CLEAN, "findings": 2, "unresolved_buckets": 2}}})
    )
    assert row.said == "incomplete, 2 buckets differ further; no key so far"


def test_expectations_are_a_row_of_their_own_with_those_that_failed() -> None:
    _, row = rows_of("search", StoredRun("r", 0, {"audits": {"orders": CLEAN}}, {"orders": EXPECTED}))
    assert (row.what, row.clean, row.said) == ("orders: expectations", False, "1 of 2 expectations failed")
    assert row.details == ("totals: 1 of 9 documents, e.g. 17",)
    assert row.position == "offsets docs 0:7"


def test_a_chains_audit_has_a_row_for_each_topic() -> None:
    (row,) = rows_of("chain", StoredRun("r", 0, CHAIN))
    assert (row.what, row.said, row.position) == ("cdc (names)", "1 finding", "raw 0:7")
    assert row.details == ("object missing (raw): raw/1 is not there",)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))
    history = History.of("search")
    for number, (run, report) in enumerate({"first": CLEAN, "second": DIRTY}.items()):
        history.begin(run)
        history.report(run).write_text(json.dumps({"audits": {"orders": report}}))
        os.utime(history.report(run), (number, number))
    history.expectations("second", "orders").write_text(json.dumps(EXPECTED))
    return history


def test_the_command_lists_the_newest_runs_first_with_findings_and_the_next_step(kept: History) -> None:
    lines = CliRunner().invoke(command, []).output.splitlines()
    assert lines[0].split() == ["at", "audit", "verdict", "took", "holds", "up", "to"]
    assert ["7 missing" in lines[1], "expectation" in lines[2], "clean" in lines[3]] == [True, True, True]
    assert "  next: lyrebird audit search orders --repair" in lines
    assert "  totals: 1 of 9 documents, e.g. 17" in lines


def test_the_command_can_be_asked_for_one_audit_or_one_run(kept: History) -> None:
    def asked(*arguments: str) -> list[str]:
        rows = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).output)["rows"]
        return [row["run_id"] for row in rows]

    assert asked("--runs", "1") == ["second", "second"]
    assert asked("--run", "first", "--audit", "orders") == ["first"]
    wrong = CliRunner().invoke(command, ["--audit", "order"])
    assert "Did you mean orders?" in str(wrong.exception)
    failed = CliRunner().invoke(command, ["--run", "third"])
    assert "nothing of this run is kept" in str(failed.exception)
    assert "no run of the DAG audit_chain is kept" in CliRunner().invoke(command, ["chain"]).output
