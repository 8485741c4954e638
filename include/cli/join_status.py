"""`lyrebird join status`: how far joins are, and what their state holds."""

from __future__ import annotations

import click
import orjson

__all__ = ["command"]


@click.command(name="status")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def command(name: str | None, as_json: bool) -> None:
    """How far the join NAME is, or all: rows of its inputs, its state, incomplete keys, positions in the sources."""
    from include.join.config.deployed import declared_joins
    from include.join.status import join_status
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    joins = declared_joins(deployment)
    if name is not None:
        require_known(name, joins, "no join of this name is declared")
    reader, admin = KafkaReader(kafka.bootstrap, kafka.options), KafkaAdmin(kafka.bootstrap, kafka.options)
    try:
        found = [join_status(join, reader, admin) for each, join in joins.items() if name in (None, each)]
    finally:
        reader.close()
    if as_json:
        click.echo(orjson.dumps({"joins": [each.to_json() for each in found]}).decode())
    else:
        click.echo("\n".join(line for each in found for line in each.lines()) or "no join is declared")
