"""`lyrebird lake policy`: which rule holds for a topic and why, which parser versions, when it is uploaded."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import group_option, groups_meant, open_store, parser_context
from include.cli.table import table
from include.clock import SystemClock
from include.errors import SettingsError
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.definition import LakeGroup
    from include.lake.inspect.policy_report import RuleReport
    from include.settings.deployment import Deployment

__all__ = ["command"]

_PATIENCE_S = 5.0


@click.command(name="policy")
@click.argument("topic", required=False, shell_complete=declared_topics)
@click.option("--explain", is_flag=True, help="With what waits now, and when it is due; without TOPIC: of all topics.")
@group_option
@json_option("Print JSON, nothing else.")
def command(topic: str | None, explain: bool, group_name: str | None, as_json: bool) -> None:
    """Say which rule of a group holds for TOPIC and which line of the deployment files says so.

    With the format, each version of the parser with the hash that commit records have, and the upload policy. The topic
    need not exist. --explain asks bucket and Kafka, too: what waits in each partition, and what follows from that.
    Without TOPIC and --explain the rules are listed. Exit code 1: what is declared cannot be carried out.
    """
    from include.lake.inspect.policy_report import explain_topic, list_rules
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    groups = groups_meant(deployment, group_name)
    if topic is None and not explain:
        reports = [rule for name, group in groups.items() for rule in list_rules(deployment, name, group)]
    else:
        topics = [topic] if topic is not None else _topics(deployment)
        context = parser_context(deployment)
        reports = [
            explain_topic(deployment, name, group, topic_name, context)
            for topic_name in topics
            for name, group in groups.items()
            if topic is not None or group.wants(topic_name)
        ]
    waits = [_waits(deployment, groups[rule.group], rule) if explain and rule.stored else [] for rule in reports]
    if as_json:
        told = [{**dataclasses.asdict(rule), "now": now} for rule, now in zip(reports, waits, strict=True)]
        click.echo(orjson.dumps({"reports": told}).decode())
    elif topic is None and not explain:
        rows = [(rule.group, rule.rule or "", _short(rule), rule.policy, _when(rule), rule.why) for rule in reports]
        click.echo(table(("group", "rule", "format", "upload after", "runs", "of"), rows))
    else:
        shown = [line for rule, now in zip(reports, waits, strict=True) for line in [*_lines(rule), *_indented(now)]]
        click.echo("\n".join(shown))
    if any(rule.problems for rule in reports):
        sys.exit(1)


def _topics(deployment: Deployment) -> list[str]:
    from include.log.kafka.admin import KafkaAdmin
    from include.settings.connections import Kafka

    kafka = deployment.one("kafka", Kafka)
    found = KafkaAdmin(kafka.bootstrap, kafka.options).names()
    if not found:
        raise SettingsError("Kafka has no topics", fix="Name one: it need not exist.")
    return found


def _waits(deployment: Deployment, group: LakeGroup, report: RuleReport) -> list[dict[str, Any]]:
    """For each partition that Kafka has, the lines that tell what waits and when it is due."""
    from include.lake.inspect.status import group_status, standing_of
    from include.lake.reading.kafka_group import KafkaGroupLog
    from include.lake.upload_policy import explain
    from include.settings.connections import Kafka

    kafka, now_ms = deployment.one("kafka", Kafka), SystemClock().now_us() // 1000
    log = KafkaGroupLog(kafka.bootstrap, kafka.options, timeout_s=_PATIENCE_S)
    alone = group.model_copy(update={"topics": (report.topic,)})
    status = group_status(report.group, alone, open_store(deployment), log, now_ms)
    policy, pattern = group.policy.of(report.topic)
    waits: list[dict[str, Any]] = [
        {"partition": None, "lines": [trouble.text, trouble.fix]} for trouble in status.troubles
    ]
    for partition in status.partitions:
        if partition.topic == report.topic and partition.state != "gone":
            standing = standing_of(partition, now_ms)
            lines = [partition.state] if standing is None else explain(policy, standing, now_ms, pattern=pattern)
            waits.append(
                {"partition": partition.partition, "lines": [*lines, *([partition.todo] if partition.todo else [])]}
            )
    return waits


def _indented(now: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in now:
        lines.append("  now:" if each["partition"] is None else f"  partition {each['partition']}:")
        lines += [f"    {line}" for line in each["lines"]]
    return lines


def _when(report: RuleReport) -> str:
    return f"by the DAG lake_upload at {report.schedule} (UTC)" if report.schedule else "always"


def _short(report: RuleReport) -> str:
    return ", ".join(report.format)


def _lines(report: RuleReport) -> list[str]:
    if not report.stored:
        return [f"{report.topic} is not stored by {report.group}: {report.why}"]
    lines = [f"{report.topic} is stored by {report.group}: {report.why}"]
    if report.rule is not None:
        lines.append(f"  rule: {report.rule}, the first that has it ({report.at})")
        lines.append(f"  format: {orjson.dumps(report.format).decode()}")
    if report.config:
        lines.append(f"  parser: none, as a backup looks at nothing; configuration {report.config[:12]}")
    for version in report.versions:
        parser = orjson.dumps(version.parser).decode()
        lines.append(f"  parser version {version.version}, {version.starts}, added {version.added}: {parser}")
        lines.append(f"    configuration {version.config[:12] or 'unknown'} in commit records")
    lines.append(f"  upload: after {report.policy} ({report.policy_at})")
    lines.append(f"  runs: {_when(report)}" + (f" ({report.schedule_at})" if report.schedule else ""))
    return [*lines, *(f"  problem: {problem}" for problem in report.problems)]
