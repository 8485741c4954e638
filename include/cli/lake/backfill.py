"""`lyrebird lake backfill`: cuts of a partition group made again, under a generation that readers do not see yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import orjson

from include.cli.lake.options import json_option
from include.clock import SystemClock

__all__ = ["command", "life_option", "run_option"]

_PLANS_RUN = "The run's name: the same goes on where it ended. Default: a name made of the plan."

life_option = click.option("--topic-id", default="", help="Of a topic that was made anew: which life.")
run_option = click.option("--run", required=True, help="The run's name, as `lake backfill` said it.")


@click.command(name="backfill")
@click.argument("topic")
@click.option("--from", "since", default="", help="First day: every cut with a record of the days is made again.")
@click.option("--to", "until", default="", help="Last day, included. Default: the first.")
@click.option("--offsets", multiple=True, help="Instead of days: partition:from-until, again for another partition.")
@click.option("--version", type=int, help="The parser's version. Default: as the deployment declares them.")
@click.option("--as-of", default="", help="The parser as it was declared at a time: 2026-11-21T00:00Z.")
@click.option(
    "--source",
    type=click.Choice(["raw", "kafka", "secor"]),
    default="raw",
    show_default=True,
    help="Records of the raw copy, of Kafka while it has them, or of an archive that Secor wrote.",
)
@click.option("--group", default="", help="The partition group. Default: the only one with the topic.")
@click.option("--raw", default="", help="The backup group. Default: the only one with the topic. Or Secor's folder.")
@life_option
@click.option("--run", default="", help=_PLANS_RUN)
@click.option("--plan", is_flag=True, help="Say what would be made again from what, and write nothing.")
@json_option
def command(plan: bool, as_json: bool, **asked: Any) -> None:
    """Make the cuts of TOPIC that hold records of some days (or offsets) again, as live would, beside it.

    Cuts keep their ends and are made whole. Here one range runs after another; the DAG `lake_backfill` runs them on
    Spark. Readers see nothing of it until `lyrebird lake promote`. Exit code 4: nothing of what is asked for is
    committed, so that there is nothing to make again.
    """
    from include.lake.backfill.deployed import DeployedBackfill, OneByOne, perform
    from include.lake.backfill.planning import NothingCommitted
    from include.lake.backfill.request import BackfillRequest
    from include.lake.backfill.run_params import NOTHING_STATUS
    from include.settings.deployment import Deployment

    request = BackfillRequest(**asked)
    clock = SystemClock()
    deployed = DeployedBackfill.of(Deployment.load(), clock)
    try:
        planned = deployed.plan(request)
    except NothingCommitted as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(NOTHING_STATUS)
    name = request.run or planned.run
    if plan:
        told = [*planned.lines(), f"run {name}; without --plan it is begun"]
        click.echo(orjson.dumps(planned.to_json() | {"run": name}).decode() if as_json else "\n".join(told))
        return
    click.echo("\n".join([*planned.lines(), f"run {name}"]), err=True)
    found = perform(deployed.bucket, planned, name, OneByOne(deployed.place(planned.asked)), clock, _tell(as_json))
    follow = f"readers follow it after: lyrebird lake promote {request.topic} --run {name}"
    click.echo(orjson.dumps(found.to_json()).decode() if as_json else "\n".join([*found.lines(), follow]))


def _tell(quiet: bool) -> Callable[[int, int], None]:
    if quiet:
        return lambda _done, _total: None
    shown = sys.stderr.isatty()

    def tell(done: int, total: int) -> None:
        end = "\r" if shown and done < total else "\n"
        click.echo(f"{done:,} of {total:,} cuts are made{end}", err=True, nl=False)

    return tell
