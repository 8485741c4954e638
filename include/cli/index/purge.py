"""`lyrebird index purge`: tombstones that are past their use."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="purge")
@click.argument("name", shell_complete=names_of("indexes"))
@click.option("--per-second", type=click.IntRange(min=1), default=2000, show_default=True, help="Most deletions.")
@click.option("--dry-run", is_flag=True, help="Delete nothing and note nothing: count what would go.")
@json_option()
def command(name: str, per_second: int, dry_run: bool, as_json: bool) -> None:
    """Delete what index NAME keeps of deleted documents, where no older state of them can come any more.

    Each run marks how far searches are, and deletes what lay below a mark that is older than the topic keeps deletions:
    so a first run deletes nothing, and runs once a day keep an index small. May be run beside the application, and
    again after a crash. What dead letters are of stays, as `index replay-dead` may bring it back.
    """
    from include.index.deployed import DeployedIndex
    from include.index.upkeep.purge import PurgeResult
    from include.index.upkeep.purge_deployed import purge_deployed
    from include.settings.deployment import Deployment

    with (
        DeployedIndex.of(Deployment.load(), name) as on,
        progress_bar(on.alias, unit="tombstones", quiet=as_json) as bar,
    ):

        def tell(now: PurgeResult) -> None:
            bar.reach(now.past_use, what=f"past their use in {now.index} from {now.topic}")

        found = purge_deployed(on, per_second=per_second, dry_run=dry_run, on_progress=tell)
    if as_json:
        click.echo(orjson.dumps({"dry_run": dry_run, "purged": [outcome.to_json() for outcome in found]}).decode())
        return
    for outcome in found:
        done = "would be purged" if dry_run else "purged"
        count = outcome.past_use - outcome.kept if dry_run else outcome.purged
        said = outcome.why or (
            f"{count:,} tombstones of before {outcome.since} {done}, {outcome.kept:,} kept for dead letters, "
            f"{outcome.changed:,} written anew meanwhile"
        )
        click.echo(f"{outcome.index} from {outcome.topic}: {said}")
