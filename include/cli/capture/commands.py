"""`lyrebird capture`: copy a source into Kafka, ask for a snapshot, see how far it is, check its server."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "run": LazyCommand("capture.run", "Follow the binlog of a source until stopped.", "run_capture"),
    "status": LazyCommand("capture.status", "What a source's copy is complete to, and what is owed.", "show_status"),
    "check": LazyCommand("capture.check", "What on the server stands in capture's way.", "check_source"),
    "policy": LazyCommand("capture.policy", "Which tables and columns pass the filter policy.", "show_policy"),
    "snapshot": LazyCommand("capture.requests", "Ask the running capture to read tables again.", "take_snapshot"),
    "request-snapshot": LazyCommand(
        "capture.requests", "The older name of `snapshot`.", "request_snapshot", hidden=True
    ),
    "reread": LazyCommand("capture.requests", "Replace what the log has of single keys.", "reread_tables"),
    "resume-table": LazyCommand("capture.requests", "Take up tables again that were set aside.", "resume_table"),
}


@click.group(name="capture", cls=Lazy, table=COMMANDS)
def command() -> None:
    """Copy a MySQL source into Kafka: run, snapshot, status."""
