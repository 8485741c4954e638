"""What the demo says of audits that Airflow has run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo.kept_audit import found
from include.audit.documents.report import DocumentsReport
from include.audit.history import History
from include.audit.merkle.report import RowFinding, TableAuditReport

pytestmark = pytest.mark.unit

CLEAN = TableAuditReport("shop", "shop.orders", "the topic", "2026-11-25T03:00:00Z", "0-1-7", 10, 1, 1)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYREBIRD_STATE", str(tmp_path))


def keep(kind: Any, run: str, section: str, reports: dict[str, Any]) -> None:
    history = History.of(kind)
    history.begin(run)
    history.report(run).write_text(json.dumps({section: {name: each.to_json() for name, each in reports.items()}}))


def test_clean_tables_are_one_line_that_names_the_transaction() -> None:
    lines = replace(CLEAN, table="shop.lines")
    keep("table", "r1", "tables", {"shop.orders": CLEAN, "shop.lines": lines})
    told = found("table", "r1")
    assert told.lines == ("audit of tables: 2 of 2 clean, shop 0-1-7",)
    assert told.good
    assert told.values == {"table_audit": {"audited": 2, "clean": 2, "positions": ["shop 0-1-7"]}}


def test_what_is_wrong_is_shown_and_a_run_that_kept_nothing_is_not_good() -> None:
    keep("table", "r1", "tables", {"shop.orders": replace(CLEAN, found=[RowFinding("extra", {"id": "7"})])})
    told = found("table", "r1")
    assert not told.good
    assert "    extra: id 7" in told.lines
    assert not found("table", "another").good


def test_documents_are_told_in_the_same_way() -> None:
    keep("document", "r1", "documents", {"assembled_order": DocumentsReport("assembled_order", "now", "0-1-9", 30)})
    assert found("document", "r1").lines == ("audit of documents: 1 of 1 clean, 0-1-9",)
