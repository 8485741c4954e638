"""`lyrebird index create`: make an index and its alias."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.index.generations.create import make_index
from include.settings.completion import names_of
from include.settings.deployment import Deployment

__all__ = ["command"]


@click.command(name="create")
@click.argument("name", shell_complete=names_of("indexes"))
@json_option()
def command(name: str, as_json: bool) -> None:
    """Make the first index of NAME and its alias as the deployment declares them; one that serves is left as it is."""
    info, made = make_index(Deployment.load(), name)
    if as_json:
        click.echo(orjson.dumps({"index": info.name, "alias": name, "uuid": info.uuid, "created": made}).decode())
        return
    click.echo(f"{info.name} {'created' if made else 'was there'}, alias {name}")
    if not made:
        click.echo(f"next: lyrebird index rebuild {name} makes another generation")
