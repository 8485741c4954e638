"""`lyrebird index replay-dead`: records that were set aside, once more."""

from __future__ import annotations

import sys

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="replay-dead")
@click.argument("name", shell_complete=names_of("indexes"))
@click.option("--dry-run", is_flag=True, help="Write nothing: say what would be done, as far as it can be said.")
@json_option()
def command(name: str, dry_run: bool, as_json: bool) -> None:
    """Index again what index NAME set aside, in every generation that is fed, after a mapping or a reader was mended.

    Mappings grow first with schemas that are new to them. Letters stay in their topic. Whatever was overtaken meanwhile
    is stale and changes nothing, so this may be run again and beside the application. Exit code 1 when letters are
    still refused.
    """
    from include.index.deployed import DeployedIndex
    from include.index.upkeep.replay_deployed import replay_deployed
    from include.settings.deployment import Deployment

    with (
        DeployedIndex.of(Deployment.load(), name) as on,
        progress_bar(on.alias, unit="letters", quiet=as_json) as bar,
    ):
        name = on.alias
        replayed = replay_deployed(on, dry_run=dry_run, on_progress=lambda now: bar.reach(now.read, what=now.topic))
    refused = sum(len(outcome.refused) for of in replayed.values() for outcome in of)
    if as_json:
        indexes = [{"index": name, "topics": [outcome.to_json() for outcome in of]} for name, of in replayed.items()]
        click.echo(orjson.dumps({"dry_run": dry_run, "indexes": indexes}).decode())
    else:
        for index, outcome in [(name, outcome) for name, of in replayed.items() for outcome in of]:
            done = "would be tried" if dry_run else "written"
            click.echo(
                f"{index} from {outcome.topic}: {outcome.read:,} letters, {outcome.done:,} {done}, "
                f"{outcome.stale:,} stale, {len(outcome.refused):,} still refused"
            )
            for at, reason in outcome.refused:
                click.echo(f"  {at}: {reason}")
        if refused:
            click.echo(f"next: mend the mapping (lyrebird index check {name}) or the reader, then run this again")
    if refused:
        sys.exit(1)
