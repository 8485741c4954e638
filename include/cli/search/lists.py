"""`lyrebird search user` and `text`: a user's documents, and those with words in a line, newest first."""

from __future__ import annotations

from typing import Any

import click

from include.cli.json_option import json_option
from include.cli.search.options import (
    box_option,
    filter_options,
    filters_of,
    fresh_search,
    in_option,
    page_options,
    say_page,
    written_option,
)

__all__ = ["text", "user"]


@click.command(name="user")
@click.argument("user_id", metavar="USER")
@click.option("--latest", metavar="ID", help="The newest document that you know of; the database is asked if need be.")
@written_option
@in_option
@page_options
@json_option()
def user(
    user_id: str, latest: str | None, written: str | None, name: str | None, size: int, after: str | None, as_json: bool
) -> None:
    """List the documents of USER, newest first, e.g. `lyrebird search user 7`.

    With --latest or --written the list has your own write, also before the index has it. The last line says where the
    answer comes from and up to which position of the source it holds. Exit code 1: that write may be missing.
    """
    search = fresh_search(name)
    page = search.of_user(user_id, size, after, latest=latest, written=written)
    say_page(search.index.target, page, as_json)
    if not page.seen.fresh:
        raise SystemExit(1)


@click.command(name="text")
@click.argument("words")
@click.option("--pieces", type=click.IntRange(min=1), help="Only lines with just so many pieces.")
@click.option("--at-least", type=click.IntRange(min=1), help="Only lines with so many pieces or more.")
@click.option("--user", help="Only of this user.")
@filter_options
@box_option
@in_option
@page_options
@json_option()
def text(
    words: str,
    pieces: int | None,
    at_least: int | None,
    user: str | None,
    name: str | None,
    size: int,
    after: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List documents with a line that has all WORDS, newest first: `search text "meat lover's pizza" --pieces 3`.

    Words and quantity are of one and the same line. A letter or two may be amiss.
    """
    from include.search.queries import Pieces

    search = fresh_search(name)
    bounds = Pieces(pieces, pieces) if pieces is not None else Pieces(at_least)
    found = search.index.text(words, bounds, filters_of(**filters, user=user), size, after)
    say_page(search.index.target, found, as_json)
