"""`lyrebird index`: the search index, made, compared with its declaration, followed."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "mapping": LazyCommand("index.mapping", "Print a first mapping for a topic, made from its schema."),
    "create": LazyCommand("index.lifecycle", "Make an index and its alias as they are declared.", "create"),
    "check": LazyCommand("index.check", "Compare a live index with its declaration, and its topics with its mapping."),
    "generations": LazyCommand("index.generations", "The generations of an index: serving, fed, size, lag."),
    "rebuild": LazyCommand("index.rebuild", "Make the next generation: filled from its topics, compared."),
    "promote": LazyCommand("index.promote", "Let readers follow another generation, or the former one again."),
    "drop": LazyCommand("index.lifecycle", "Delete a generation that does not serve.", "drop"),
    "purge": LazyCommand("index.purge", "Delete what is kept of deleted documents, once it is past its use."),
    "replay-dead": LazyCommand("index.replay_dead", "Index again what was set aside."),
    "status": LazyCommand(
        "index.status", "How far an index is: offsets, source position, records waiting and set aside."
    ),
}


@click.group(name="index", cls=Lazy, table=COMMANDS)
def command() -> None:
    """The search index: made, compared with its declaration, followed."""
