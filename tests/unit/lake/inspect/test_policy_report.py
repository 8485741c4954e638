"""Which rule holds for a topic and why, by the lines of the deployment file."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.lake.definition import declared_groups
from include.lake.inspect.policy_report import RuleReport, explain_topic, list_rules
from include.lake.parsing.definition import ParserContext
from include.lake.writing.topic_pipelines import logics_of
from include.settings.deployment import Deployment

LAKE = """\
lake:
  raw:
    kind: backup
    application: lake_backup
    topics: [cdc.*, events]
    exclude: ["*.dlq"]
    prefix: raw
    rules:
      - topics: "*"
        format: {sequence: {layout: verbatim}}
  dates:
    kind: partition
    application: lake_partition
    topics: [events*, other]
    prefix: dates
    run: schedule
    policy:
      max_age_s: 600
      topics:
        - topics: events.small
          max_bytes: 1000
    rules:
      - topics: events*
        format: {json_lines: {content: payload}}
        versions:
          - version: 1
            added: 2026-01-01T00:00:00Z
            parser: {format: json, time: {field: at, unit: ms}}
          - version: 2
            added: 2026-06-01T00:00:00Z
            from_offsets: {0: 500}
            parser: {format: json, time: {field: made, unit: s}}
      - topics: other2
        format: {text: {}}
        versions:
          - version: 1
            added: 2026-01-01T00:00:00Z
            parser: {format: protobuf, descriptor_set: none.desc, message: a.B, time: {field: at, unit: ms}}
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "lake.yaml").write_text(LAKE, "utf-8")
    return Deployment.load(tmp_path, {})


def explain(deployment: Deployment, name: str, topic: str) -> RuleReport:
    return explain_topic(deployment, name, declared_groups(deployment)[name], topic, ParserContext(deployment.folder))


def test_the_first_rule_that_has_the_topic_is_named_with_its_line(deployment: Deployment) -> None:
    found = explain(deployment, "dates", "events.big")
    assert (found.stored, found.rule, found.problems) == (True, "events*", ())
    assert found.at.endswith("lake.yaml:23")
    assert found.why.startswith("wanted by events* (")
    assert found.why.endswith("lake.yaml:14)")
    assert found.format == {"json_lines": {"content": "payload"}}
    assert found.run == "schedule"
    assert (found.schedule, found.schedule_at.rpartition("/")[2]) == ("0 * * * *", "lake.yaml:12")
    assert explain(deployment, "raw", "events").schedule == ""
    assert [each.schedule for each in list_rules(deployment, "raw", declared_groups(deployment)["raw"])] == [""]


def test_versions_have_the_hash_that_commits_have(deployment: Deployment) -> None:
    found = explain(deployment, "dates", "events")
    group = declared_groups(deployment)["dates"]
    logics = logics_of("dates", group, "events", ParserContext(deployment.folder))
    assert [each.version for each in found.versions] == [1, 2]
    assert [each.config for each in found.versions] == [logics.holding(0, first, -1).config for first in (0, 500)]
    assert found.versions[0].starts == "from the beginning"
    assert found.versions[1].starts.startswith("from offsets {0: 500}")


def test_a_backup_has_one_hash_and_no_versions(deployment: Deployment) -> None:
    found = explain(deployment, "raw", "cdc.shop.orders")
    group = declared_groups(deployment)["raw"]
    logic = logics_of("raw", group, "cdc.shop.orders", ParserContext(deployment.folder)).holding(0, 0, -1)
    assert (found.config, found.versions) == (logic.config, ())


def test_an_exception_of_the_upload_policy_is_named_with_its_line(deployment: Deployment) -> None:
    small, own = explain(deployment, "dates", "events.small"), explain(deployment, "dates", "events")
    assert small.policy == "1000 bytes, 2000000 records or 600 s (the exception for events.small)"
    assert small.policy_at.endswith("lake.yaml:20")
    assert own.policy.endswith("600 s (the group's own)")
    assert own.policy_at.endswith("lake.yaml:18")


def test_a_topic_that_is_left_out_says_by_what(deployment: Deployment) -> None:
    left_out = explain(deployment, "raw", "cdc.dlq")
    assert not left_out.stored
    assert left_out.why.startswith("left out by *.dlq (")
    assert "none of cdc.*, events has it" in explain(deployment, "raw", "nothing").why


def test_what_cannot_be_carried_out_is_a_problem(deployment: Deployment) -> None:
    assert explain(deployment, "dates", "other").problems == (
        "no rule of the group has this topic: nothing of it would be stored",
    )
    (problem,) = explain(deployment, "dates", "other2").problems
    assert "none.desc" in problem
    assert explain(deployment, "dates", "other2").versions[0].config == ""


def test_rules_are_listed_without_a_topic(deployment: Deployment) -> None:
    found = [
        each for name, group in declared_groups(deployment).items() for each in list_rules(deployment, name, group)
    ]
    assert [(each.group, each.rule) for each in found] == [("raw", "*"), ("dates", "events*"), ("dates", "other2")]
    assert found[0].why == "topics cdc.*, events without *.dlq"
