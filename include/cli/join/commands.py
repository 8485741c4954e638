"""`lyrebird join`: keyed changelogs joined without windows."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "check": LazyCommand("join.check", "Check a join's file against its topics, and show what it would write."),
    "rebuild": LazyCommand("join.rebuild", "Ask a running join to be made of its inputs anew."),
    "replay": LazyCommand(
        "join.replay", "Join the changes of a file, without servers of yours: for tests of your joins."
    ),
    "status": LazyCommand("join.status", "How far joins are, and what their state holds."),
}


@click.group(name="join", cls=Lazy, table=COMMANDS)
def command() -> None:
    """Keyed changelogs joined without windows."""
