"""`lyrebird lake promote`: readers follow a backfill from now on."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import run_option
from include.lake.backfill.run_params import BackfillRun

__all__ = ["command"]


@click.command(name="promote")
@BackfillRun.options("topic")
@run_option
@BackfillRun.options("group", "topic_id", "accept_differences")
@json_option("Print JSON, nothing else.")
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
