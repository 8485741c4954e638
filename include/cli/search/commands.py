"""`lyrebird search`: one document, lists, full text, rankings and places, asked of the index."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "one": LazyCommand("search.one", "One document by its id: `search order 4711`, or `search one order 4711`."),
    "user": LazyCommand("search.lists", "What one user has, newest first.", "user"),
    "text": LazyCommand(
        "search.lists", 'Words in lines, with the quantity: `search text "meat lover\'s pizza" --pieces 3`.', "text"
    ),
    "popular": LazyCommand(
        "search.popular", "What is in most lines: of one business, category, area, time.", "popular"
    ),
    "categories": LazyCommand("search.popular", "Lines by category.", "categories"),
    "near": LazyCommand("search.near", "Nearest first, around a point.", "near"),
    "area": LazyCommand("search.near", "Inside a box of degrees, newest first.", "area"),
    "dark-launch": LazyCommand(
        "search.dark_launch", "Database and index asked the same: compare, and advise to switch."
    ),
    "dark-rows": LazyCommand("search.dark_rows", "Documents beside the rows that a join made of the same tables."),
}


class _Searches(Lazy):
    """An entity's name stands for `one` of it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            args = ["one", *args]
        return super().resolve_command(ctx, args)


@click.group(name="search", cls=_Searches, table=COMMANDS)
def command() -> None:
    """Ask the index. Tables are for people, --json is one object; times are UTC.

    With several entries in the section `searches`, --in names the one that is meant.
    """
