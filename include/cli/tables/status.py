"""`lyrebird table status`: version, position and delay of each table."""

from __future__ import annotations

from contextlib import closing

import click
import orjson

from include.cli.json_option import json_option
from include.settings.completion import declared_topics

__all__ = ["command"]


@click.command(name="status")
@click.argument("topic", required=False, shell_complete=declared_topics)
@json_option()
def command(topic: str | None, as_json: bool) -> None:
    """How far the table of TOPIC is, or all: version, rows, what it is complete to, how long ago that was."""
    from include.cli.lake.options import open_store
    from include.cli.table import duration, size, table
    from include.cli.tables.commands import declared, logs_of
    from include.clock import SystemClock
    from include.lake.tables.status import table_status
    from include.lake.tables.versions import kept_tables
    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    entries, log_of, clock = declared(deployment), logs_of(deployment), SystemClock()
    statuses = []
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader, closing(open_store(deployment)) as store:
        names = admin.names()
        kept = {name: kept_tables(store, entry, names) for name, entry in entries.items()}
        if topic is not None:
            require_known(
                topic, {kept_topic for of in kept.values() for kept_topic in of}, "no table of this topic is kept"
            )
        for name, of_entry in kept.items():
            for kept_topic, generations in sorted(of_entry.items()):
                if topic not in (None, kept_topic):
                    continue
                status = table_status(name, entries[name], kept_topic, generations, log_of, reader, admin, clock)
                if status is not None:
                    statuses.append(status)
    if as_json:
        click.echo(orjson.dumps({"tables": [status.to_json() for status in statuses]}).decode())
        return
    if not statuses:
        click.echo("no table has a version yet")
        return
    rows = [
        [
            status.topic,
            f"{status.version:,}",
            f"{status.rows:,}",
            size(status.size_bytes),
            "; ".join(f"{source} {gtids}" for source, gtids in status.positions.items()) or "nothing yet",
            "" if status.lag_s is None else duration(status.lag_s),
            f"{status.waiting:,}",
        ]
        for status in statuses
    ]
    head = ["table", "version", "rows", "size", "complete to", "behind", "waiting"]
    click.echo(table(head, rows, right=("version", "rows", "size", "behind", "waiting")))
    for told in statuses:
        if told.writing != told.generation:
            click.echo(f"{told.topic}: generation {told.writing} is being made; generation {told.generation} is read")
        if told.uncovered:
            click.echo(f"{told.topic} may lack changes of {', '.join(told.uncovered)}")
