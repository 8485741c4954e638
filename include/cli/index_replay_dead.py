"""`lyrebird index replay-dead`: records that were set aside, once more."""

from __future__ import annotations

import sys

import click
import orjson

__all__ = ["command"]


@click.command(name="replay-dead")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Write nothing: say what would be done, as far as it can be said.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def command(name: str, dry_run: bool, as_json: bool) -> None:
    """Index again what index NAME set aside, for the generation that serves, after its mapping or a reader was mended.

    Letters stay in their topic. Whatever was overtaken meanwhile is stale and changes nothing, so this may be run
    again and beside the application. Exit code 1 when letters are still refused.
    """
    from include.index.deployed import DeployedIndex
    from include.index.replay import Replayed
    from include.index.replay_deployed import replay_deployed
    from include.settings.deployment import Deployment

    def tell(now: Replayed) -> None:
        if sys.stderr.isatty() and not as_json:
            click.echo(f"\r{now.topic}: {now.read:,} letters", nl=False, err=True)

    with DeployedIndex.of(Deployment.load(), name) as on:
        index, found = replay_deployed(on, dry_run=dry_run, on_progress=tell)
    refused = sum(len(each.refused) for each in found)
    if as_json:
        told = {"index": index, "dry_run": dry_run, "topics": [each.to_json() for each in found]}
        click.echo(orjson.dumps(told).decode())
    else:
        for each in found:
            done = "would be tried" if dry_run else "written"
            click.echo(
                f"{index} from {each.topic}: {each.read:,} letters, {each.done:,} {done}, {each.stale:,} stale, "
                f"{len(each.refused):,} still refused"
            )
            for at, reason in each.refused:
                click.echo(f"  {at}: {reason}")
        if refused:
            click.echo(f"next: mend the mapping (lyrebird index check {name}) or the reader, then run this again")
    if refused:
        sys.exit(1)
