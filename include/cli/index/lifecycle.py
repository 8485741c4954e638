"""`lyrebird index create` and `drop`: make an index and its alias, delete a generation that nobody needs any more."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.index.generations.create import make_index
from include.settings.completion import names_of
from include.settings.deployment import Deployment

__all__ = ["create", "drop"]


@click.command(name="create")
@click.argument("name", shell_complete=names_of("indexes"))
@json_option()
def create(name: str, as_json: bool) -> None:
    """Make the first index of NAME and its alias as the deployment declares them; one that serves is left as it is."""
    info, made = make_index(Deployment.load(), name)
    if as_json:
        click.echo(orjson.dumps({"index": info.name, "alias": name, "uuid": info.uuid, "created": made}).decode())
        return
    click.echo(f"{info.name} {'created' if made else 'was there'}, alias {name}")
    if not made:
        click.echo(f"next: lyrebird index rebuild {name} makes another generation")


@click.command(name="drop")
@click.argument("name", shell_complete=names_of("indexes"))
@click.option("--generation", type=click.IntRange(min=1), required=True, help="Its number.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option("Print one JSON object, nothing else. Needs --yes.")
def drop(name: str, generation: int, yes: bool, as_json: bool) -> None:
    """Delete a generation of index NAME and feed it no more. The one that serves readers is refused.

    After that a rollback to it is a rebuild.
    """
    from include.errors import SettingsError
    from include.index.deployed import DeployedIndex
    from include.index.generations.promote import drop_generation
    from include.index.name import IndexName

    one = IndexName(name, generation)
    if not yes:
        if as_json:
            raise SettingsError("deleting an index asks first", index=str(one), fix="Give --yes with --json.")
        click.confirm(f"delete {one} and its documents?", abort=True)
    with DeployedIndex.of(Deployment.load(), name) as on:
        drop_generation(on.index, on.admin, one)
    click.echo(orjson.dumps({"dropped": str(one)}).decode() if as_json else f"{one} is deleted")
