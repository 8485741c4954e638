"""`lyrebird lake promote`: readers follow a backfill from now on."""

from __future__ import annotations

import click
import orjson

from include.cli.lake.backfill import life_option, run_option
from include.cli.lake.options import json_option

__all__ = ["command"]


@click.command(name="promote")
@click.argument("topic")
@run_option
@click.option("--group", default="", help="The partition group. Default: the only one with the topic.")
@life_option
@click.option("--accept-differences", is_flag=True, help="Also when the comparison is not clean.")
@json_option
def command(topic: str, run: str, group: str, topic_id: str, accept_differences: bool, as_json: bool) -> None:
    """Compare what a backfill of TOPIC made with what readers read, and let them follow it, all at once.

    Refused when cuts are missing, and unless told when records, refused ones or bytes are not as expected. Listings of
    replaced dates are exact again after `lyrebird lake expire`; readers that follow the pointer need not wait for it.
    """
    from include.lake.backfill.deployed import DeployedBackfill
    from include.lake.backfill.promotion import promote
    from include.lake.backfill.request import group_of
    from include.settings.deployment import Deployment

    deployed = DeployedBackfill.of(Deployment.load())
    deployed.require_stored(topic)
    name = group_of(deployed.groups, topic, "partition", group, "--group")
    begun = deployed.run_named(name, topic, run, topic_id)
    found = promote(deployed.bucket.store, begun, accept=accept_differences, pause=deployed.bucket.pause)
    click.echo(orjson.dumps(found.to_json()).decode() if as_json else "\n".join(found.lines()))
