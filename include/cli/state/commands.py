"""`lyrebird state`: the keyed state of joins."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "export": LazyCommand("state.exporting", "Write all rows of a join's state to a folder."),
    "import": LazyCommand("state.importing", "Put an exported state back, in as many buckets as you like."),
    "inspect": LazyCommand("state.inspect", "What each bucket holds, and what it is made of."),
    "verify": LazyCommand("state.verify", "Compare each bucket with the newest rows of the inputs."),
}


@click.group(name="state", cls=Lazy, table=COMMANDS)
def command() -> None:
    """The keyed state of joins: look into it, prove it, take it out, put it back."""
