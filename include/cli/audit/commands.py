"""`lyrebird audit`: prove that a copy is right, or name what is not."""

from __future__ import annotations

from typing import Final

import click

from include.cli.lazy import Lazy, LazyCommand

__all__ = ["COMMANDS", "command"]

COMMANDS: Final[dict[str, LazyCommand]] = {
    "chain": LazyCommand("audit.chain", "What the lake stores: every record is there once, and nothing was changed."),
    "documents": LazyCommand(
        "audit.documents", "A topic's documents against the database: what is made of each key now."
    ),
    "history": LazyCommand("audit.history", "What the audits under Airflow have found: verdicts, findings, positions."),
    "join": LazyCommand(
        "audit.join", "Inputs of a join against the joined topic: missing, extra, stale, altered outputs."
    ),
    "search": LazyCommand("audit.search", "Topic against index: missing, extra, stale and altered documents."),
    "tables": LazyCommand("audit.tables", "Tables of a database against their topics or lake tables, row by row."),
}


@click.group(name="audit", cls=Lazy, table=COMMANDS)
def command() -> None:
    """Prove that a copy is right, or name what is not."""
