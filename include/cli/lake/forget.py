"""`lyrebird lake forget`: what is older than a day is read by nobody any more, and removed."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import open_store
from include.cli.progress_bar import progress_bar
from include.errors import SettingsError
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.forgetting import TopicForgetting
    from include.settings.deployment import Deployment
    from include.store.object_store import ObjectStore

__all__ = ["command"]


@click.command(name="forget")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=declared_topics)
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="The first day that is kept (UTC).")
@click.option("--due", is_flag=True, help="By the `keep_days` of each group, of those that have one.")
@click.option("--group", "names", multiple=True, help="This group alone; again for another. Default: all.")
@click.option(
    "--accept-missing",
    is_flag=True,
    help="Go on, too, where the oldest commits are gone already and nothing shows that they were due.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be forgotten, and forget nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("Print JSON, nothing else.")
def command(
    topics: tuple[str, ...],
    before: dt.datetime | None,
    due: bool,
    names: tuple[str, ...],
    accept_missing: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget the cuts of TOPIC, or of all topics, of which all records are older than a day.

    First the readers' pointer moves up, so that nobody reads below it, then data and old commits are removed, by the
    credentials of the section `expiry`. Cut off, it goes on when it is started again. What lies behind a cut with a
    younger record is kept with it. Nothing brings back what is removed.

    A partition whose oldest commits somebody else has removed is left as it is, and the command ends with an error,
    unless what is left was stored before the day. --accept-missing takes it as forgotten.
    """
    from include.clock import SystemClock
    from include.lake.backfill.deployed import deleting
    from include.lake.forgetting import forget
    from include.lake.writing.task import patience
    from include.settings.deployment import Deployment
    from include.store.s3 import store_of

    deployment, clock = Deployment.load(), SystemClock()
    if (before is None) != due:
        raise SettingsError("what is to be forgotten?", fix="Give either --before DAY or --due.")
    today = dt.datetime.fromtimestamp(clock.now_us() // 1_000_000, dt.UTC).date()
    store = open_store(deployment)
    planned = _planned(
        deployment, store, names, topics, before.date() if before else None, today, accept_missing=accept_missing
    )
    plans = [plan for _, plan in planned]
    if not as_json:
        click.echo("\n".join(line for plan in plans for line in plan.lines()), err=not dry_run)
    wanted = [plan for plan in plans if not plan.nothing]
    removed = 0
    if wanted and not dry_run:
        eraser = store_of(deleting(deployment))
        if not yes:
            click.confirm("Forget this, for ever?", abort=True, err=True)
        objects = sum(each.objects for plan in wanted for each in plan.partitions)
        with progress_bar("removed", objects, unit="objects", quiet=as_json) as bar:
            for plan in wanted:
                removed += forget(store, eraser, plan, lambda _key: bar.advance(), patience(clock))
    if as_json:
        click.echo(orjson.dumps({"topics": [plan.to_json() for plan in plans], "removed": removed}).decode())
    elif not dry_run:
        click.echo(f"{removed:,} objects are removed")
    for group, plan in planned:
        plan.require_whole(group)


def _planned(
    deployment: Deployment,
    store: ObjectStore,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    before: dt.date | None,
    today: dt.date,
    *,
    accept_missing: bool,
) -> list[tuple[str, TopicForgetting]]:
    """Plans, each with the name of its group."""
    from include.lake.definition import declared_groups, group_named
    from include.lake.forgetting import plan_forgetting
    from include.lake.protocol.inventory import stored_topics
    from include.settings.names import require_known

    groups = {name: group_named(deployment, name) for name in names} or declared_groups(deployment)
    stored = [(name, life) for name, group in groups.items() for life in stored_topics(store, group.prefix)]
    for topic in topics:
        require_known(
            topic, {life.topic for _, life in stored}, "nothing is stored of this topic", groups=sorted(groups)
        )
    plans = []
    for name, life in stored:
        if topics and life.topic not in topics:
            continue
        keep_days = groups[name].keep_days
        day = before or (today - dt.timedelta(days=keep_days) if keep_days else None)
        if day is not None:
            plans.append((name, plan_forgetting(store, life, day, accept_missing=accept_missing)))
    return plans
