"""`lyrebird lake restore`: a topic made again in Kafka from its backup."""

from __future__ import annotations

from typing import Any

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.clock import SystemClock
from include.lake.restore.request import RestoreRequest

__all__ = ["command"]


@click.command(name="restore")
@RestoreRequest.options()
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@json_option("Print JSON, nothing else.")
def command(dry_run: bool, as_json: bool, **asked: Any) -> None:
    """Write the records of TOPIC, as its backup has them, to another topic: each exactly once, in its partition.

    Key, value, headers and timestamp are as they were, but for schema ids that the registry has another schema for, or
    none: kept schemas are registered, and ids replaced. Offsets are new, and a map tells them. What was cut off goes on
    when the same is asked for again. Consumer groups go on in the new topic where they were in the old one; stop them
    first.
    """
    from include.lake.restore.deployed import DeployedRestore
    from include.settings.deployment import Deployment

    request = RestoreRequest(**asked)
    deployed = DeployedRestore.of(Deployment.load(), SystemClock())
    standing = deployed.plan(request)
    if dry_run:
        value = {"plan": standing.plan.to_json(), "begun": standing.begun is not None, "groups": standing.committed}
        value |= {"lacking_schemas": standing.lacking}
        told = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
        click.echo(told if as_json else "\n".join([*standing.lines(), "without --dry-run it is begun"]))
        return
    click.echo("\n".join(standing.lines()), err=True)
    with progress_bar(request.topic, unit="records", quiet=as_json, estimated=True) as bar:
        found = deployed.perform(standing, bar.reach)
    click.echo(orjson.dumps(found.to_json()).decode() if as_json else "\n".join(found.lines()))
