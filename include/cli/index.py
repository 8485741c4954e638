"""`lyrebird index`: make an index as it is declared, compare a live one, and see how far it has come."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson

from include.cli.table import table
from include.errors import Terminal
from include.index.definition import IndexDefinition, index_named, mapping_of
from include.index.elasticsearch import ElasticsearchIndex
from include.index.generation import IndexName
from include.index.make import make_index
from include.index.mapping import check
from include.index.port import IndexInfo
from include.index.progress import Progress, read_progress
from include.log import topics
from include.log.kafka import KafkaReader
from include.settings.connections import Elasticsearch, Kafka
from include.settings.deployment import Deployment

__all__ = ["command"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")


@click.group(name="index", help="The search index: make it, compare it with its declaration, see how far it is.")
def command() -> None:
    """Group of the index's commands."""


@command.command(name="create")
@click.argument("name")
@json_option
def create_index(name: str, as_json: bool) -> None:
    """Make index NAME and its alias as the deployment declares them; one that is there is left as it is."""
    info, made = make_index(Deployment.load(), name)
    if as_json:
        _print_json({"index": info.name, "alias": name, "uuid": info.uuid, "created": made})
    else:
        click.echo(f"{info.name} {'created' if made else 'was there'}, alias {name}")


@command.command(name="check")
@click.argument("name")
@json_option
def check_index(name: str, as_json: bool) -> None:
    """Compare live index NAME with its declared mapping and alias; exit code 1 when they differ."""
    deployment = Deployment.load()
    definition = index_named(deployment, name)
    info = _live(ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch)), name, definition)
    differences = check(info, name, mapping_of(deployment, definition))
    if as_json:
        _print_json({"index": info.name, "differences": differences})
    else:
        click.echo("\n".join(differences) or f"{info.name} is as declared")
    if differences:
        if not as_json:
            click.echo(f"next: raise `generation` of {name} in the deployment file, then lyrebird index create {name}")
        sys.exit(1)


@command.command(name="status")
@click.argument("name")
@json_option
def index_status(name: str, as_json: bool) -> None:
    """Show how far index NAME has come: offsets, source position, records waiting and set aside."""
    deployment = Deployment.load()
    definition = index_named(deployment, name)
    kafka = deployment.one("kafka", Kafka)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    info = _live(index, name, definition)
    progress = read_progress(index, info, definition.topic) or Progress(definition.topic)
    reader = KafkaReader(kafka.bootstrap, dict(kafka.options))
    try:
        ends = _ends(reader, definition.topic)
        dead = sum(_ends(reader, topics.dead(definition.topic, definition.application)).values())
    finally:
        reader.close()
    waiting = sum(max(0, end - progress.acked.get(p, 0)) for p, end in ends.items())
    if as_json:
        _print_json(
            {
                "index": info.name,
                "uuid": info.uuid,
                "topic": definition.topic,
                "acked": {str(p): offset for p, offset in progress.acked.items()},
                "ends": {str(p): offset for p, offset in ends.items()},
                "waiting": waiting,
                "set_aside": dead > 0,
                "complete": progress.complete.to_json() if progress.complete else None,
            }
        )
        return
    click.echo(f"{info.name} from {definition.topic}: {waiting} records waiting")
    rows = [[str(p), str(progress.acked.get(p, 0)), str(end)] for p, end in sorted(ends.items())]
    click.echo(table(["partition", "indexed to", "end"], rows, right=["partition", "indexed to", "end"]))
    if progress.complete:
        click.echo(f"complete to {progress.complete.gtids} ({progress.complete.binlog})")
    if dead:
        click.echo(f"documents were set aside: see topic {topics.dead(definition.topic, definition.application)}")


def _live(index: ElasticsearchIndex, name: str, definition: IndexDefinition) -> IndexInfo:
    concrete = str(IndexName(name, definition.generation))
    info = index.describe(concrete)
    if info is None:
        raise Terminal("index does not exist", index=concrete, fix=f"Run `lyrebird index create {name}`.")
    return info


def _ends(reader: KafkaReader, topic: str) -> dict[int, int]:
    """Its ends; none for a topic that nobody has made yet."""
    try:
        return reader.end_offsets(topic)
    except Terminal:
        return {}


def _print_json(value: Any) -> None:
    click.echo(orjson.dumps(value).decode())
