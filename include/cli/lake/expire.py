"""`lyrebird lake expire`: objects that no reader reads any more are removed, by credentials of their own."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.lake.backfill.run_params import BackfillRun
from include.settings.completion import declared_topics, names_of
from include.settings.renamed import RenamedOption

__all__ = ["command"]


@click.command(name="expire")
@click.argument("topic", shell_complete=declared_topics)
@click.option("--generation", type=click.IntRange(min=0), required=True, help="Whose objects.")
@click.option(
    "--group", required=True, help="The group: raw copies may be expired, too.", shell_complete=names_of("lake")
)
@BackfillRun.options("topic_id")
@click.option(
    "--dry-run",
    cls=RenamedOption,
    before=("--plan",),
    is_flag=True,
    help="Say what would be removed, and remove nothing.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("Print JSON, nothing else.")
def command(topic: str, generation: int, group: str, topic_id: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove the data objects of a generation of TOPIC that readers do not read, after showing and asking.

    Whoever looked up the pointer before a promotion may still read them: leave such readers time. The writers'
    credentials need no right to delete: those of the section `expiry` are used (as `store`, the same bucket).
    """
    from include.clock import SystemClock
    from include.lake.backfill.deployed import deleting
    from include.lake.backfill.expiry import expire, plan_expiry
    from include.lake.backfill.live_cuts import only_life
    from include.lake.definition import group_named
    from include.lake.writing.task import patience
    from include.settings.connections import StoreSettings
    from include.settings.deployment import Deployment
    from include.store.s3 import store_of

    deployment = Deployment.load()
    settings = deployment.one("store", StoreSettings)
    eraser = None if dry_run else deleting(deployment)
    store = store_of(settings)
    expiry = plan_expiry(store, only_life(store, group_named(deployment, group).prefix, topic, topic_id), generation)
    if eraser is None or not (expiry.objects or expiry.gives_up):
        click.echo(orjson.dumps(expiry.to_json()).decode() if as_json else "\n".join(expiry.lines()))
        return
    click.echo("\n".join(expiry.lines()), err=True)
    if not yes:
        click.confirm("Remove them?", abort=True, err=True)
    with progress_bar("removed", len(expiry.objects), unit="objects", quiet=as_json) as bar:
        expire(store, store_of(eraser), expiry, lambda _each: bar.advance(), patience(SystemClock()))
    told = f"{len(expiry.objects):,} objects, {expiry.bytes:,} bytes, are removed"
    click.echo(orjson.dumps(expiry.to_json() | {"removed": len(expiry.objects)}).decode() if as_json else told)
