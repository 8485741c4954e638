"""`lyrebird lake`: what stands on object storage, found, shown and proven."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Entry, Lazy

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, Entry]] = {}


@click.group(name="lake", cls=Lazy, table=COMMANDS)
def command() -> None:
    """What stands on object storage: found, shown and proven."""
