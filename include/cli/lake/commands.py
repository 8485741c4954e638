"""`lyrebird lake`: what stands on object storage, found, shown and proven."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "status": LazyCommand("lake.status", "How far each group is, what waits, and what to do where it stands."),
    "where": LazyCommand("lake.where", "The object that has a record, and its place in it."),
    "cat": LazyCommand("lake.cat", "The records of an object, ours or Secor's."),
    "files": LazyCommand("lake.files", "Exactly the objects that readers of some dates read."),
    "policy": LazyCommand("lake.policy", "Which rule holds for a topic, and why."),
    "audit": LazyCommand("audit.chain", "The earlier name of `lyrebird audit chain`.", hidden=True),
    "backfill": LazyCommand("lake.backfill", "Make days of a topic again from the raw copy, or plan it."),
    "promote": LazyCommand("lake.promote", "Compare a backfill, and let readers follow it."),
    "finalise": LazyCommand("lake.finalise", "Mark dates that are over, and those that got records afterwards."),
    "expire": LazyCommand("lake.expire", "Remove objects that no reader reads any more."),
    "forget": LazyCommand("lake.forget", "Forget what is older than a day, and remove it."),
    "restore": LazyCommand("lake.restore", "Write a topic to Kafka again, from its backup."),
}


@click.group(name="lake", cls=Lazy, table=COMMANDS)
def command() -> None:
    """What stands on object storage: found, shown and proven."""
