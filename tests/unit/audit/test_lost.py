"""What a kept run proves: that something of a name was there."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.history import AuditKind, StoredRun
from include.audit.lost import mark_lost
from include.audit.nothing import NothingJudged

pytestmark = pytest.mark.unit

NOTHING = NothingJudged("a", "2026-11-25T03:00:00Z", "there is no such topic yet").to_json()


@pytest.mark.parametrize(
    ("kind", "section", "entry", "lost"),
    [
        ("join", "audits", {"expected": 3, "held": 3, "findings": 0}, True),
        ("join", "audits", {"expected": 0, "held": 0, "findings": 0}, False),
        ("document", "documents", {"documents": 9, "findings": 0}, True),
        ("document", "documents", {"documents": 0, "findings": 1}, True),
        ("document", "documents", {"documents": 0, "findings": 0}, False),
        ("table", "tables", {"rows": 5, "findings": 0, "error": ""}, True),
        ("table", "tables", {"rows": 0, "findings": 0, "error": ""}, False),
        ("table", "tables", {"rows": 0, "findings": 0, "error": "SELECT is refused"}, False),
    ],
)
def test_a_run_that_has_met_something_proves_that_it_was_there(
    kind: AuditKind, section: str, entry: dict[str, Any], lost: bool
) -> None:
    report: dict[str, Any] = {section: {"a": dict(NOTHING)}}
    kept = [StoredRun("r2", 2, {section: {"a": dict(NOTHING)}}), StoredRun("r1", 1, {section: {"a": entry}})]
    assert mark_lost(kind, report, kept) == ({"a": "r1"} if lost else {})
    assert report[section]["a"]["verdict"] == ("lost" if lost else "nothing")
