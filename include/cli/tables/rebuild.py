"""`lyrebird table rebuild`: begin a new generation of a table."""

from __future__ import annotations

from contextlib import closing

import click
import orjson

from include.cli.json_option import json_option
from include.settings.completion import declared_topics

__all__ = ["command"]


@click.command(name="rebuild")
@click.argument("topic", shell_complete=declared_topics)
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@json_option()
def command(topic: str, dry_run: bool, as_json: bool) -> None:
    """Begin a new generation of TOPIC's table: its application makes it from the topic's beginning.

    The generation before is read until the new one is complete, and stays where it is. A generation that is being made
    is not begun again.
    """
    from include.cli.lake.options import open_store
    from include.cli.tables.commands import declared
    from include.lake.tables.generation import begin_generation
    from include.lake.tables.versions import kept_table
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    entries = declared(deployment)
    with closing(open_store(deployment)) as store:
        entry, now = kept_table(store, entries.values(), topic)
        begun = now.serving == now.writing
        writing = now.writing + begun
        if begun and not dry_run:
            writing = begin_generation(store, entry.prefix, topic, now.writing).writing
    if as_json:
        value = {"topic": topic, "serving": now.serving, "writing": writing, "begun": begun and not dry_run}
        click.echo(orjson.dumps(value).decode())
    elif not begun:
        click.echo(f"generation {writing} of {topic} is being made already; generation {now.serving} is read")
    elif dry_run:
        click.echo(f"would begin generation {writing} of {topic}; {entry.application} makes it")
    else:
        click.echo(f"generation {writing} of {topic} begins; {entry.application} makes it, if it runs")
