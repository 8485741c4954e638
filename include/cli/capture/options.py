"""Options that several commands of `lyrebird capture` share."""

from __future__ import annotations

import click

from include.settings.completion import names_of

__all__ = ["source_option", "tables_option"]

source_option = click.option(
    "--source",
    "name",
    required=True,
    help="Name of the source in the deployment files.",
    shell_complete=names_of("sources"),
)
tables_option = click.option("--tables", default="", help="Only these, with commas between: `orders,users`.")
