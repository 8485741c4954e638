"""The pages of audits: verdicts, findings and positions of each kept run, and no live markup."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from include.audit.history import KINDS, History
from include.settings.environment import state_folder
from supervision.pages.audits import audit_page, audits_page

RUN = "scheduled__2026-11-02T02:30:00+00:00"
REPORT = {
    "topic": "docs",
    "mode": "digest",
    "at": "2026-11-02T02:30:40.000001+00:00",
    "window": {"0": 7, "1": 9},
    "position": {"gtids": "0-1-9", "file": "bin.1"},
    "missing": ["<b>5</b>", "6"],
    "requests": 3,
    "findings": 2,
    "next_command": "lyrebird audit search orders --repair",
}


@pytest.fixture
def history() -> Iterator[History]:
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)
    found = History.of("search")
    found.begin(RUN)
    found.report(RUN).write_text(json.dumps({"audits": {"orders": REPORT}}))
    yield found
    shutil.rmtree(state_folder() / "audit", ignore_errors=True)


def test_a_runs_page_shows_verdict_findings_requests_position_and_the_command(history: History) -> None:
    page = audit_page("search", RUN)
    words = " ".join(re.sub("<[^>]+>", " ", page).split())
    assert "2026-11-02 02:30:40 UTC orders (digest) 2 missing 3 requests 0-1-9; offsets 0:7, 1:9" in words
    assert "missing: &lt;b&gt;5&lt;/b&gt;, 6" in page
    assert "<b>5</b>" not in page
    assert "<code>lyrebird audit search orders --repair</code>" in page
    assert '<tr class="found">' in page
    assert 'href="dags/audit_search/runs/scheduled__2026-11-02T02%3A30%3A00%2B00%3A00" target="_top"' in page


def test_the_history_has_every_kept_run_of_both_kinds(history: History) -> None:
    assert audits_page(KINDS).count('<tr class="found">') == 1
    assert "None has ended on this host yet" in audits_page(KINDS)
    history.begin("second")
    history.report("second").write_text(json.dumps({"audits": {"orders": {**REPORT, "missing": [], "findings": 0}}}))
    chain = History.of("chain")
    chain.begin("third")
    chain.report("third").write_text(json.dumps({"topics": {"cdc": {"findings": [], "groups": []}}}))
    page = audits_page(KINDS)
    assert page.count('<tr class="clean">') == 2
    assert page.index("second") < page.index("scheduled__")


def test_a_run_that_has_not_ended_has_a_page_with_the_history(history: History) -> None:
    page = audit_page("search", "manual__now")
    assert "Nothing of this run is kept" in page
    assert "orders (digest)" in page
