"""`lyrebird demo`: everything at once, to look at."""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

import click

from demo.extras import parts, services
from demo.screen import Screen, screen
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.settings.environment import state_folder

if TYPE_CHECKING:
    from demo.run import Summary

__all__ = ["command"]


@click.command(name="demo", help="Start everything, let a shop take orders, and watch them arrive in search.")
@click.option("--orders", default=500, show_default=True, type=click.IntRange(1), help="Orders to place.")
@click.option("--rate", default=20.0, show_default=True, type=click.FloatRange(0.1), help="Orders a second.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same orders.")
@click.option("--once", is_flag=True, help="Stop everything at the end; exit 0 only if search is the truth.")
@click.option("--with", "extras", default="", metavar="A,B", help="Further parts of the platform to join in.")
@json_option("Only the summary, as one JSON object.")
def command(orders: int, rate: float, seed: int, once: bool, extras: str, as_json: bool) -> None:
    """Run the demo."""
    from demo.run import Demo
    from include.index.generations.create import make_index
    from include.local.rootless import hand_over
    from include.local.stack import Stack
    from include.settings.deployment import Deployment

    clock = SystemClock()
    begun_s = clock.monotonic_s()
    joined = parts(extras)
    signal.signal(signal.SIGTERM, _interrupt)
    hand_over(state_folder(), _nothing if as_json else click.echo)
    show: Screen = screen(clock, _nothing if as_json else click.echo)
    stack = Stack(state_folder(), clock=clock, say=show.say)
    summary: Summary | None = None
    try:
        show.step("the stack starts: MariaDB, Kafka, registry, S3, Elasticsearch, mail, Airflow")
        env = stack.up(services(joined))
        os.environ.update({name: value for name, value in env.items() if name.startswith("LYREBIRD_")})
        for index in [index for part in joined for index in part.indexes]:
            make_index(Deployment.load(), index)
        demo = Demo(stack, env, joined, show, clock, begun_s=begun_s)
        try:
            summary = demo.run(orders, rate, seed)
        finally:
            demo.close()
        show.close()
        if not as_json:
            _tell(summary)
            if not once:
                _addresses(env)
        if not once:
            click.echo("Ctrl-C stops everything.", err=as_json)
            signal.pause()
    except KeyboardInterrupt:
        show.say("interrupted")
    finally:
        show.step("stopping")
        stack.down()
        show.close()
    if summary is None:
        sys.exit(130)
    click.echo(json.dumps(summary.to_json()))
    sys.exit(0 if summary.good else 1)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tell(summary: Summary) -> None:
    for line in summary.explanation:
        click.echo(f"  {line}")
    click.echo(
        f"\n{summary.searchable} orders searchable and equal, {summary.different} different, "
        f"{summary.missing} missing; audit {summary.audit}\n"
    )
    for line in summary.told:
        click.echo(line)


def _addresses(env: dict[str, str]) -> None:
    user, password = env["LYREBIRD_AIRFLOW_USER"], env["LYREBIRD_AIRFLOW_PASSWORD"]
    click.echo(f"Airflow   {env['LYREBIRD_AIRFLOW']}  ({user} / {password})")
    click.echo(f"search    {env['LYREBIRD_ELASTICSEARCH']}/orders/_search?pretty  or  lyrebird search order 1")
    click.echo(f"          (user {env['LYREBIRD_ELASTICSEARCH_USER']}; password in {env['LYREBIRD_STATE']}/env)")
    click.echo(f"mails     {env['LYREBIRD_MAIL']}")
    click.echo(f"          (user {env['LYREBIRD_MAIL_USER']}; password in {env['LYREBIRD_STATE']}/env)")
    click.echo("more      lyrebird status, lyrebird logs NAME, lyrebird audit search assembled_order\n")


def _nothing(_line: str) -> None:
    """Write no line."""
