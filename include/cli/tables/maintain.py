"""`lyrebird table maintain`: remove what is older than tables' time travel."""

from __future__ import annotations

from contextlib import closing

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.lake.tables.run_params import MaintenanceRun

__all__ = ["command"]


@click.command(name="maintain")
@MaintenanceRun.options("topic", required=False, default="", metavar="[TOPIC]")
@MaintenanceRun.options("dry_run")
@json_option()
def command(topic: str, dry_run: bool, as_json: bool) -> None:
    """Remove files and versions of TOPIC's table, or of all, that are older than its `time_travel_days`.

    Never what a version within these days has: readers of them, and audits, find all their files. The DAG
    `lake_maintenance` runs this daily.
    """
    from include.cli.lake.options import open_store
    from include.cli.tables.commands import declared, logs_of
    from include.lake.tables.maintenance import maintained
    from include.lake.tables.versions import kept_tables
    from include.log.kafka.log import KafkaAdmin
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    entries, log_of = declared(deployment), logs_of(deployment)
    names = KafkaAdmin(kafka.bootstrap, kafka.options).names()
    with closing(open_store(deployment)) as store:
        kept = {name: kept_tables(store, entry, names) for name, entry in entries.items()}
        if topic:
            require_known(
                topic, {kept_topic for of in kept.values() for kept_topic in of}, "no table of this topic is kept"
            )
        meant = [
            (entries[name], kept_topic, generations)
            for name, of in kept.items()
            for kept_topic, generations in sorted(of.items())
            if topic in ("", kept_topic)
        ]
        outcomes = []
        with progress_bar("files", len(meant), unit="tables", quiet=as_json) as bar:
            for entry, kept_topic, generations in meant:
                outcomes.append(maintained(entry, kept_topic, generations, log_of, dry_run=dry_run))
                bar.advance()
    if as_json:
        click.echo(orjson.dumps({"tables": [outcome.to_json() for outcome in outcomes], "dry_run": dry_run}).decode())
        return
    for outcome in outcomes:
        click.echo(f"{outcome.topic}: {'would remove' if dry_run else 'removed'} {outcome.removed:,} files")
    if not outcomes:
        click.echo("no table has a version yet")
