"""Results in words and as JSON, and where an audit's report says that expectations are cut."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from include.audit.expectations.job import windows_in, windows_of
from include.audit.expectations.report import (
    ExpectationResult,
    ExpectationsReport,
    TopicFigures,
    UnexpectedDocument,
    results_of,
)
from include.errors import SettingsError


def result(**changes: Any) -> ExpectationResult:
    given: dict[str, Any] = {"topic": "docs", "name": "once", "kind": "ExpectX", "arguments": {}, "success": False}
    return ExpectationResult(**{**given, **changes})


def test_results_survive_their_json() -> None:
    found = result(checked=3, unexpected=1, examples=(UnexpectedDocument("5", {"total": "1.50"}),))
    report = ExpectationsReport("a", "2026-11-02T00:00:00Z", (TopicFigures("docs", {1: 2, 0: 7}, 3, 0),), (found,))
    content = json.loads(json.dumps(report.to_json()))
    assert results_of(content) == [found]
    assert (content["failed"], content["topics"][0]["window"]) == (1, {"0": 7, "1": 2})


def test_a_result_says_how_many_and_names_some_each_once() -> None:
    examples = tuple(UnexpectedDocument(key, {"n": Decimal("1E+2"), "rest": None}) for key in ("a", "a", "b", "c", "d"))
    assert (
        result(checked=1200, unexpected=5, examples=examples).said
        == "5 of 1,200 documents, e.g. a (n 100, rest null), b (n 100, rest null), c (n 100, rest null)"
    )
    assert result(observed={"min": 3}).said == 'observed {"min": 3}'
    assert result(problem="no such column").said == "cannot be judged: no such column"
    assert result(success=True, checked=1200).said == "1,200 documents as expected"


def test_records_that_cannot_be_read_fail_what_was_met_and_leave_what_was_not() -> None:
    met, failed = result(success=True, checked=5), result(checked=3, unexpected=1)
    assert met.doubted(0) == met
    assert failed.doubted(2) == failed
    doubted = met.doubted(2)
    assert not doubted.success
    assert doubted.said.startswith("cannot be judged: 2 records cannot be read")
    assert results_of(ExpectationsReport("a", "then", (), (doubted,)).to_json()) == [doubted]


def test_values_of_hidden_columns_stand_nowhere() -> None:
    given = result(
        arguments={"column_list": ["email", "n"], "max_value": 3},
        checked=3,
        unexpected=1,
        observed="a@b.example",
        examples=(UnexpectedDocument("5", {"email": "a@b.example", "n": 1}),),
        problem="'a@b.example' is no number",
    )
    hidden = given.without(["email"])
    assert "a@b.example" not in json.dumps(ExpectationsReport("a", "then", (), (hidden,)).to_json())
    assert hidden.examples == (UnexpectedDocument("5", {"email": "(hidden)", "n": 1}),)
    assert given.without(["n2"]) == given
    assert given.without([]) == given
    # An expectation that does not ask for it may still show it beside.
    beside = result(
        arguments={"column": "n"}, observed=3, examples=(UnexpectedDocument("5", {"email": "a@b.example"}),)
    )
    assert (beside.without(["email"]).observed, beside.without(["email"]).examples[0].values) == (
        3,
        {"email": "(hidden)"},
    )


def test_a_report_names_verdict_position_and_what_was_not_judged() -> None:
    figures = TopicFigures("docs", {0: 7, 1: 2}, 1200, 3, ("length",))
    report = ExpectationsReport("a", "then", (figures,), (result(success=True, checked=1200), result(observed=3)))
    assert report.lines() == [
        "expectations of a: 1 failed (then)",
        "  docs: 1,200 documents below offsets 0:7, 1:2",
        "  3 records that cannot be read are not judged",
        "  fields of types that Spark does not have: length",
        "as expected docs once (ExpectX)",
        "FAILED docs once (ExpectX): observed 3",
    ]


def test_expectations_are_cut_where_the_audit_of_each_topic_was() -> None:
    entry = {"topic": "docs", "window": {"0": 7, "1": 2}, "findings": 0}
    clicks = {"topic": "clicks", "window": {"0": 1}, "findings": 0}
    assert windows_of({"audits": {"a": entry, "ab": clicks}}, "a") == {"docs": {0: 7, 1: 2}}
    both = {"audits": {"a/docs": entry, "a/clicks": clicks}}
    assert windows_of(both, "a") == {"docs": {0: 7, 1: 2}, "clicks": {0: 1}}


def test_a_file_that_is_no_report_of_the_audit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for text in ("", "[]", '{"audits": {"a": {}}}'):
        file.write_text(text)
        with pytest.raises(SettingsError, match="no report of a search audit"):
            windows_in(file, "a")
    file.write_text('{"audits": {"b": {"topic": "docs", "window": {"0": 1}}}}')
    assert windows_in(file, "b") == {"docs": {0: 1}}
    with pytest.raises(SettingsError, match="not of this audit"):
        windows_in(file, "a")
    with pytest.raises(SettingsError, match="FileNotFoundError"):
        windows_in(tmp_path / "none.json", "a")
