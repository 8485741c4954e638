"""`lyrebird index drop`: delete a generation that nobody needs any more."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="drop")
@click.argument("name", shell_complete=names_of("indexes"))
@click.option("--generation", type=click.IntRange(min=1), required=True, help="Its number.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("Print one JSON object, nothing else. Needs --yes.")
def command(name: str, generation: int, yes: bool, as_json: bool) -> None:
    """Delete a generation of index NAME and feed it no more. The one that serves readers is refused.

    After that a rollback to it is a rebuild.
    """
    from include.errors import SettingsError
    from include.index.deployed import DeployedIndex
    from include.index.generations.promote import drop_generation
    from include.index.name import IndexName
    from include.settings.deployment import Deployment

    one = IndexName(name, generation)
    if not yes:
        if as_json:
            raise SettingsError("deleting an index asks first", index=str(one), fix="Give --yes with --json.")
        click.confirm(f"delete {one} and its documents?", abort=True)
    with DeployedIndex.of(Deployment.load(), name) as on:
        drop_generation(on.index, on.admin, one)
    click.echo(orjson.dumps({"dropped": str(one)}).decode() if as_json else f"{one} is deleted")
