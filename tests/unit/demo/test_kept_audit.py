"""What the demo says of audits that Airflow has run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demo.kept_audit import found, judged_nothing
from include.audit.documents.report import DocumentsReport
from include.audit.history import History
from include.audit.merkle.report import RowFinding, TableAuditReport
from include.audit.nothing import NothingJudged

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


NOTHING = NothingJudged("parcels", "2026-11-25T03:00:00Z", "no document is there yet")


def test_what_has_nothing_yet_is_named_and_counts_neither_as_clean_nor_as_wrong() -> None:
    orders = DocumentsReport("assembled_order", "now", "0-1-9", 30)
    keep("document", "r1", "documents", {"assembled_order": orders, "parcels": NOTHING})
    told = found("document", "r1")
    assert told.lines[0] == "audit of documents: 1 of 1 clean, 0-1-9"
    assert "  parcels: nothing to judge yet" in told.lines
    assert told.good
    assert not judged_nothing("audit_documents", "r1")


def test_a_run_that_judged_nothing_is_not_good_until_a_later_one_has_judged() -> None:
    keep("document", "r1", "documents", {"parcels": NOTHING})
    told = found("document", "r1")
    assert told.lines[0] == "audit of documents: nothing was judged"
    assert not told.good
    assert judged_nothing("audit_documents", "r1")
    os.utime(History.of("document").report("r1"), (1, 1))
    keep("document", "r2", "documents", {"parcels": DocumentsReport("parcels", "now", "0-1-9", 30)})
    assert found("document", "r1").good
    assert not judged_nothing("audit_documents", "r1")
