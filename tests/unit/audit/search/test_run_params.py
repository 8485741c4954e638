"""What a person may ask of the search audit, and what its report means."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.audit.search.run_params import SearchAuditRun, refuse_findings
from include.errors import SettingsError, Terminal


def test_no_names_mean_all_of_them() -> None:
    run = SearchAuditRun.from_params({"audits": []}, audits=["b", "a"])
    assert run.arguments(Path("/r.json"), {}) == ["--audit", "a", "--audit", "b", "--report", "/r.json"]


def test_mode_and_repair_are_handed_on() -> None:
    run = SearchAuditRun.from_params({"mode": "bisect", "repair": True}, audits=["a"])
    expecting = {"a": Path("/a.json"), "b": Path("/b.json")}
    how = ["--mode", "bisect", "--repair", "--expectations", "a", "/a.json"]
    assert run.arguments(Path("/r.json"), expecting) == ["--audit", "a", *how, "--report", "/r.json"]
    with pytest.raises(SettingsError, match="bisect"):
        SearchAuditRun.from_params({"mode": "guess"}, audits=["a"])


@pytest.mark.parametrize("audits", [["c"], ["a", "a"]])
def test_a_wrong_choice_is_refused_with_the_fix(audits: list[str]) -> None:
    with pytest.raises(SettingsError) as error:
        SearchAuditRun.from_params({"audits": audits}, audits=["a", "b"])
    assert error.value.fix


def test_nothing_to_audit_is_refused() -> None:
    with pytest.raises(SettingsError, match="no audit"):
        SearchAuditRun.from_params({"audits": []}, audits=[])


def test_a_clean_report_passes() -> None:
    assert refuse_findings({"audits": {"a": {"findings": 0}, "b": {"findings": 0}}}) == 2


def test_findings_fail_with_their_count_and_the_command_to_run_next() -> None:
    with pytest.raises(Terminal, match=r"7 findings.*lyrebird audit search b") as error:
        refuse_findings({"audits": {"a": {"findings": 0}, "b": {"findings": 7}}})
    assert "audit search a" not in str(error.value)
