"""`lyrebird lake finalise`: mark the dates that are over, and those that got records afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import open_store
from include.clock import SystemClock
from include.errors import SettingsError
from include.lake.finalising.run_params import FinaliseRun

if TYPE_CHECKING:
    from include.lake.definition import LakeGroup
    from include.settings.deployment import Deployment

__all__ = ["command"]


@click.command(name="finalise")
@FinaliseRun.options()
@click.option("--dry-run", is_flag=True, help="Only say what would be marked; write nothing.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the JSON there, too, and end with 0 if it is.")
@click.option(
    "--acknowledge",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Note that those who wait were told of all that this report says, and do nothing else.",
)
@json_option("Print JSON, nothing else.")
def command(
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    dry_run: bool,
    report: Path | None,
    acknowledge: Path | None,
    as_json: bool,
) -> None:
    """Write _SUCCESS into the folder of each hour and day that all Kafka partitions have passed.

    By the event times of what is committed, in the parser's zone, and by the lateness that the group declares. Records
    that came after _SUCCESS give a date _LATE and the next edition of _SUCCESS; so does, without _LATE, a backfill that
    was promoted. An edition is told until it is acknowledged: the DAG lake_finalise does both, every hour, as events of
    the asset lake://TOPIC/dt. Without TOPIC all topics that are stored are looked at. Exit code: 1 when a topic cannot
    be judged, the others are.
    """
    from include.lake.finalising.mark import acknowledge as acknowledged
    from include.lake.finalising.mark import finalise_groups
    from include.lake.finalising.report import TopicReport, counted, together
    from include.lake.protocol.inventory import require_stored
    from include.lake.reading.kafka_group import KafkaGroupLog
    from include.metrics.exporter import write_atomically
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    if acknowledge is not None:
        done = acknowledged(open_store(deployment), orjson.loads(acknowledge.read_bytes()))
        click.echo(
            orjson.dumps({"acknowledged": done}).decode() if as_json else f"{counted(done, 'date')} acknowledged"
        )
        return
    kafka, meant = deployment.one("kafka", Kafka), _groups(deployment, groups)
    log = KafkaGroupLog(kafka.bootstrap, kafka.options)
    reports: list[TopicReport] = []
    store = open_store(deployment)
    for topic_report in finalise_groups(store, log, meant, SystemClock(), topics, dry_run=dry_run):
        reports.append(topic_report)
        if not as_json:
            click.echo("\n".join(topic_report.lines()))
    if missing := sorted(set(topics) - {topic_report.topic for topic_report in reports}):
        require_stored(store, [group.prefix for group in meant.values()], missing[0])
        raise SettingsError(
            "nothing is stored of this topic", topic=missing, groups=sorted(meant), fix="See `lyrebird lake status`."
        )
    told = orjson.dumps(together(reports)).decode()
    if as_json:
        click.echo(told)
    if report is not None:
        write_atomically(report, told)
    sys.exit(1 if report is None and any(topic_report.error for topic_report in reports) else 0)


def _groups(deployment: Deployment, names: tuple[str, ...]) -> dict[str, LakeGroup]:
    from include.lake.definition import declared_groups, group_named

    meant = {name: group_named(deployment, name) for name in names} or declared_groups(deployment)
    partition_groups = {name: group for name, group in meant.items() if group.kind == "partition"}
    if not partition_groups or (names and len(partition_groups) < len(meant)):
        raise SettingsError(
            "no partition group of the lake is meant",
            groups=sorted(meant),
            fix="Backups have no dates: name a group that has `kind: partition`, or declare one.",
        )
    return partition_groups
