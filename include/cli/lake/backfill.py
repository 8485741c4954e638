"""`lyrebird lake backfill`: cuts of a partition group made again, under a generation that readers do not see yet."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson

from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.clock import SystemClock
from include.lake.backfill.run_params import NOTHING_STATUS, BackfillRun

__all__ = ["command"]


@click.command(name="backfill")
@BackfillRun.options("topic", "since", "until", "offsets")
@BackfillRun.options("version", type=int)
@BackfillRun.options("as_of", "source", "group", "raw", "topic_id", "run", "dry_run")
@json_option("Print JSON, nothing else.")
def command(dry_run: bool, as_json: bool, **asked: Any) -> None:
    """Make the cuts of TOPIC that hold records of some days (or offsets) again, as live would, beside it.

    Cuts keep their ends and are made whole. Here one range runs after another; the DAG `lake_backfill` runs them on
    Spark. Readers see nothing of it until `lyrebird lake promote`. Exit code 4: nothing of what is asked for is
    committed, so that there is nothing to make again.
    """
    from include.lake.backfill.deployed import DeployedBackfill, SequentialPool, perform
    from include.lake.backfill.planning import NothingCommitted
    from include.lake.backfill.request import BackfillRequest
    from include.settings.deployment import Deployment

    request = BackfillRequest(**asked)
    clock = SystemClock()
    deployed = DeployedBackfill.of(Deployment.load(), clock)
    try:
        planned = deployed.plan(request)
    except NothingCommitted as error:
        tell_error(error)
        sys.exit(NOTHING_STATUS)
    name = request.run or planned.run
    if dry_run:
        told = [*planned.lines(), f"run {name}; without --dry-run it is begun"]
        click.echo(orjson.dumps(planned.to_json() | {"run": name}).decode() if as_json else "\n".join(told))
        return
    click.echo("\n".join([*planned.lines(), f"run {name}"]), err=True)
    with progress_bar(request.topic, unit="cuts", quiet=as_json) as bar:
        found = perform(deployed.bucket, planned, name, SequentialPool(deployed.place(planned.asked)), clock, bar.reach)
    follow = f"readers follow it after: lyrebird lake promote {request.topic} --run {name}"
    click.echo(orjson.dumps(found.to_json()).decode() if as_json else "\n".join([*found.lines(), follow]))
