"""The section `expectations`: read strictly, each refusal with its place and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from include.audit.expectations.catalogue import known
from include.audit.expectations.definition import declared_expectations, expectations_of_audit
from include.errors import SettingsError
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT

INDEXES = """\
indexes:
  orders: {application: a, topic: docs, entity: order, mapping: m.json}
  clicks: {application: b, topic: clicks, entity: click, mapping: m.json}
audits:
  orders: {index: orders}
"""


def deployed(folder: Path, expectations: str) -> Deployment:
    (folder / "all.yaml").write_text(INDEXES)
    (folder / "expectations.yaml").write_text(f"expectations:\n  docs:\n{expectations}")
    return Deployment.load(folder)


def test_the_shipped_section_is_right_and_belongs_to_the_shipped_audit() -> None:
    folder = PROJECT_ROOT / "include" / "deployment"
    wanted = {name for file in folder.glob("*.yaml") for name in re.findall(r"\$\{(\w+)\}", file.read_text())}
    deployment = Deployment.load(folder, dict.fromkeys(wanted, "1"))
    found = expectations_of_audit(deployment, "assembled_order")
    assert [each.name for each in found["assembled_order"].declared("assembled_order")] == [
        "totals_add_up",
        "states_are_known",
        "each_order_once",
    ]


def test_an_entry_has_its_own_name_and_the_expectation_and_arguments_of_great_expectations(tmp_path: Path) -> None:
    deployment = deployed(
        tmp_path,
        "    expect:\n      known: {ExpectColumnValuesToBeInSet: {column: s, value_set: [a, 1, 2.5], mostly: 0.9}}\n",
    )
    (declared,) = declared_expectations(deployment)["docs"].declared("docs")
    assert (declared.topic, declared.name, declared.kind) == ("docs", "known", "ExpectColumnValuesToBeInSet")
    assert declared.arguments == {"column": "s", "value_set": ["a", 1, 2.5], "mostly": 0.9}


@pytest.mark.parametrize(
    ("call", "message", "path", "allowed"),
    [
        ("{ExpectColumnToShine: {column: s}}", "no such expectation", "known.ExpectColumnToShine", sorted(known())),
        # Great Expectations has it, and says that Spark is not among what it works on.
        ("{ExpectColumnValuesToMatchLikePattern: {column: s, like_pattern: a}}", "on Spark", "Pattern", None),
        (
            "{ExpectColumnValuesToBeUnique: {columm: s}}",
            "unknown argument",
            "known.ExpectColumnValuesToBeUnique.columm",
            ["column", "mostly"],
        ),
        # What every expectation of theirs has, and Lyrebird sets.
        ("{ExpectColumnValuesToBeUnique: {column: s, severity: info}}", "unknown argument", "severity", None),
        ("{ExpectColumnValuesToBeInSet: {column: s}}", "argument is missing", "ExpectColumnValuesToBeInSet", None),
        (
            "{ExpectColumnValuesToBeInSet: {column: s, value_set: a}}",
            "another type",
            "ExpectColumnValuesToBeInSet.value_set",
            ["array"],
        ),
        ("{ExpectColumnToExist: {column: s, column_index: true}}", "another type", "column_index", ["integer"]),
        ("{ExpectColumnValuesToBeUnique: {column: s, mostly: 90}}", "between 0 and 1", "mostly", "0 to 1"),
        (
            "{ExpectColumnValuesToMatchRegexList: {column: s, regex_list: [a], match_on: some}}",
            "another type",
            "match_on",
            ["=all", "=any"],
        ),
        ("{}", "an entry is one expectation", "known", None),
    ],
)
def test_what_is_not_right_is_refused_where_it_stands(
    tmp_path: Path, call: str, message: str, path: str, allowed: object
) -> None:
    deployment = deployed(tmp_path, f"    expect:\n      known: {call}\n")
    with pytest.raises(SettingsError, match=message) as refused:
        declared_expectations(deployment)
    assert refused.value.details["file"].endswith("expectations.yaml")
    assert refused.value.details["line"] == 4
    assert path in refused.value.details["path"]
    assert allowed is None or refused.value.details["allowed"] == allowed


def test_a_topic_that_no_audit_looks_at_is_refused(tmp_path: Path) -> None:
    call = "{expect: {once: {ExpectColumnValuesToBeUnique: {column: s}}}}"
    deployment = deployed(tmp_path, f"    {call[1:-1]}\n  clicks: {call}\n")
    with pytest.raises(SettingsError, match="no audit looks at this topic") as refused:
        declared_expectations(deployment)
    assert refused.value.details["allowed"] == ["docs"]


def test_the_column_of_the_key_is_nobody_elses(tmp_path: Path) -> None:
    once = "    expect: {once: {ExpectColumnValuesToBeUnique: {column: doc_id}}}\n"
    assert declared_expectations(deployed(tmp_path, once))["docs"].columns == {}
    with pytest.raises(SettingsError, match="this column is the key"):
        declared_expectations(deployed(tmp_path, f"    columns: {{doc_id: upper(s)}}\n{once}"))


def test_an_audit_has_the_expectations_of_its_own_topics(tmp_path: Path) -> None:
    deployment = deployed(tmp_path, "    expect: {once: {ExpectColumnValuesToBeUnique: {column: s}}}\n")
    assert set(expectations_of_audit(deployment, "orders")) == {"docs"}
    (tmp_path / "expectations.yaml").unlink()
    assert expectations_of_audit(Deployment.load(tmp_path), "orders") == {}
    with pytest.raises(SettingsError, match="no such name") as refused:
        expectations_of_audit(deployment, "order")
    assert "orders" in refused.value.details["allowed"]
