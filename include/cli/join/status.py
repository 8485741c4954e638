"""`lyrebird join status`: how far joins are, and what their state holds."""

from __future__ import annotations

import click

from include.cli.json_option import json_option
from include.cli.status_options import tell_status
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="status")
@click.argument("name", required=False, shell_complete=names_of("joins"))
@json_option()
def command(name: str | None, as_json: bool) -> None:
    """How far the join NAME is, or all: rows of its inputs, its state, incomplete keys, positions in the sources."""
    from include.join.config.deployed import declared_joins
    from include.join.status import join_status

    tell_status("join", declared_joins, join_status, name, as_json=as_json)
