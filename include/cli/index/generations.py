"""`lyrebird index generations`: the generations of an index at one look."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.cli.table import size, table
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="generations")
@click.argument("name", shell_complete=names_of("indexes"))
@json_option()
def command(name: str, as_json: bool) -> None:
    """Show the generations of index NAME: which one serves, which are fed, how far and how large they are.

    A generation is `filling` while a rebuild reads the past into it, `fed` when the application writes it too,
    `missing` when it is to be fed and its index is gone, `idle` when nobody writes it.
    """
    from include.index.deployed import DeployedIndex
    from include.index.generations.overview import generations_of
    from include.settings.deployment import Deployment

    with DeployedIndex.of(Deployment.load(), name) as on:
        name = on.alias
        found = generations_of(on.index, on.admin, name, on.definition, on.ends)
    rows = [each.to_json() for each in found]
    if as_json:
        click.echo(orjson.dumps({"alias": name, "generations": rows}).decode())
        return
    if not rows:
        click.echo(f"{name} has no generation\nnext: lyrebird index create {name}")
        return
    head = ["generation", "state", "documents", "size", "offsets waiting", "created"]
    cells = [
        [
            row["index"],
            row["state"],
            "" if row["documents"] is None else f"{row['documents']:,}",
            "" if row["bytes"] is None else size(row["bytes"]),
            "" if row["waiting"] is None else f"{row['waiting']:,}",
            "" if row["created"] is None else f"{row['created'][:19]}Z",
        ]
        for row in rows
    ]
    click.echo(table(head, cells, right=["documents", "size", "offsets waiting"]))
    if not any(row["serving"] for row in rows):
        click.echo(f"alias {name} leads nowhere\nnext: lyrebird index rebuild {name}, or promote one that is whole")
