"""`lyrebird documents`: assemble one to look at, have a topic written anew, see how far its assembler is."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "assemble": LazyCommand("documents.assemble", "Print one document as the database makes it now, with its sources."),
    "check": LazyCommand(
        "documents.check", "Does the database have the tables, columns and indexes that documents need?"
    ),
    "rebuild": LazyCommand("documents.rebuild", "Ask the running assembler to write documents anew."),
    "status": LazyCommand("documents.status", "How far assemblers are: position, age, load, open requests."),
}


@click.group(name="documents", cls=Lazy, table=COMMANDS)
def command() -> None:
    """The assembler of documents: look at one, rebuild, follow."""
