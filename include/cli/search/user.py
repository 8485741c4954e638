"""`lyrebird search user`: a user's documents, newest first."""

from __future__ import annotations

import click

from include.cli.json_option import json_option
from include.cli.search.options import fresh_search, in_option, page_options, say_page, written_option

__all__ = ["command"]


@click.command(name="user")
@click.argument("user")
@click.option("--latest", metavar="ID", help="The newest document that you know of; the database is asked if need be.")
@written_option
@in_option
@page_options
@json_option()
def command(
    user: str, latest: str | None, written: str | None, name: str | None, size: int, after: str | None, as_json: bool
) -> None:
    """List the documents of USER, newest first, e.g. `lyrebird search user 7`.

    With --latest or --written the list has your own write, also before the index has it. The last line says where the
    answer comes from and up to which position of the source it holds. Exit code 1: that write may be missing.
    """
    search = fresh_search(name)
    page = search.of_user(user, size, after, latest=latest, written=written)
    say_page(search.index.target, page, as_json)
    if not page.seen.fresh:
        raise SystemExit(1)
