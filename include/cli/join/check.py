"""`lyrebird join check`: a join's file against the topics and schemas that are there."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click
import orjson

from include.cli.json_option import json_option

__all__ = ["command"]


@click.command(name="check")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option()
def command(file: Path, as_json: bool) -> None:
    """Check the join of FILE against its topics, and show what it would write. Changes nothing.

    What cannot run is refused with file, line and what to write instead. Of a join that runs already, it says what the
    file changes: the next start of its application begins with that.
    """
    from include.cli.table import table
    from include.join.committed import read_committed
    from include.join.config.check import checked_join
    from include.join.config.definition import read_join
    from include.join.config.deployed import declared_joins, spread_topics
    from include.join.takeover import changes_of
    from include.log import topics
    from include.log.kafka.log import KafkaAdmin, KafkaReader
    from include.log.registry.confluent import ConfluentRegistry
    from include.settings.connections import Kafka, Registry
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    places, join = read_join(file)
    entries = [
        deployed.entry for deployed in declared_joins(deployment).values() if deployed.topic == join.output.topic
    ]
    registry = ConfluentRegistry(deployment.one("registry", Registry))
    admin = KafkaAdmin(kafka.bootstrap, kafka.options)
    look = functools.partial(
        checked_join,
        places,
        registry=registry,
        admin=admin,
        forgetting=[topic for entry in entries for topic in entry.forgetting],
        spread=spread_topics(deployment),
    )
    checked = look(join)
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        there = topics.state(join.output.topic) in admin.names()
        committed = read_committed(reader, join.output.topic) if there else None
    finally:
        reader.close()
    changes = [] if committed is None else changes_of(committed.definition, committed.slots, checked, look)
    if as_json:
        told = {
            "topic": join.output.topic,
            "inputs": [
                {"topic": checked_input.topic, "change": checked_input.schema.change}
                for checked_input in checked.inputs
            ],
            "determined": checked.plan.determined,
            "key": checked.output.key,
            "value": checked.output.value,
            "notes": checked.notes,
            "changes": changes,
        }
        click.echo(orjson.dumps(told).decode())
        return
    kinds = [
        (checked_input.topic, "changes of a table" if checked_input.schema.change else "rows")
        for checked_input in checked.inputs
    ]
    click.echo(table(("input", "records"), kinds))
    click.echo(f"\n{join.output.topic}")
    rows = [("key", field["name"], _type(field["type"])) for field in checked.output.key["fields"]]
    rows += [("value", field["name"], _type(field["type"])) for field in checked.output.value["fields"]]
    click.echo(table(("of", "field", "type"), rows))
    for note in checked.notes:
        click.echo(f"note: {note}")
    for change in changes:
        click.echo(f"change: {change}")


def _type(kind: Any) -> str:
    if isinstance(kind, list):
        return " or ".join(_type(branch) for branch in kind)
    if isinstance(kind, dict):
        return str(kind.get("logicalType") or kind.get("name") or kind["type"])
    return str(kind)
