"""`lyrebird eventtime`: keyed processing in the order of event time."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "replay": LazyCommand("eventtime.replay", "Run a job over the elements of a file: for tests of your jobs."),
    "status": LazyCommand("eventtime.status", "How far jobs are, and which partition holds them back."),
    "verify": LazyCommand("eventtime.verify", "Replay a day and compare it with what was live."),
}


@click.group(name="eventtime", cls=Lazy, table=COMMANDS)
def command() -> None:
    """Keyed processing in the order of event time, live and in a replay alike."""
