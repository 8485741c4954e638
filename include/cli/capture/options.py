"""Options that several commands of `lyrebird capture` share."""

from __future__ import annotations

import click

from include.settings.completion import names_of

__all__ = ["json_option", "source_option", "tables_option"]

source_option = click.option(
    "--source",
    "name",
    required=True,
    help="Name of the source in the deployment files.",
    shell_complete=names_of("sources"),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else, on stdout.")
tables_option = click.option("--tables", default="", help="Only these, with commas between: `orders,users`.")
