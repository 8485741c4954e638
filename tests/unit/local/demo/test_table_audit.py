"""What the demo says of the audit of its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.audit.merkle.report import Finding, TableReport
from include.local.demo.table_audit import told_of

pytestmark = pytest.mark.unit

CLEAN = TableReport("shop", "shop.orders", "the topic", "2026-11-25T03:00:00Z", "0-1-7", 10, 1, 1)


def test_clean_tables_are_one_line_that_names_the_transaction() -> None:
    told = told_of([CLEAN, replace(CLEAN, table="shop.lines")])
    assert told.lines == ("audit of 2 tables: 2 clean (shop at 0-1-7)",)
    assert told.good
    assert told.values["table_audit"]["rows"] == 20


def test_what_is_wrong_is_shown_and_nothing_at_all_is_not_good() -> None:
    told = told_of([CLEAN, replace(CLEAN, table="shop.lines", found=[Finding("extra", {"id": "7"})])])
    assert not told.good
    assert "    extra: id 7" in told.lines
    assert told.values["table_audit"]["findings"] == 1
    assert not told_of([]).good
