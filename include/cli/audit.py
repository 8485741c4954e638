"""`lyrebird audit`: prove that a copy is right, or name what is not."""

from __future__ import annotations

import sys

import click
import orjson

from include.audit.definition import search_audit
from include.audit.platform import audit_on_servers
from include.errors import LyrebirdError
from include.settings.deployment import Deployment

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.group(name="audit", help="Prove that a copy is right, or name what is not.")
def command() -> None:
    """Group of the audits."""


@command.command(name="search")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every finding, nothing else.")
def search(name: str, as_json: bool) -> None:
    """Compare topic and index of audit NAME (e.g. assembled_order); changes nothing, and may run under load.

    Names each document that the index lacks or should not hold. Exit code: 0 clean, 1 findings, 2 it cannot be said.
    """
    try:
        deployment = Deployment.load()
        report = audit_on_servers(deployment, search_audit(deployment, name))
    except LyrebirdError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(CANNOT_AUDIT)
    click.echo(orjson.dumps(report.to_json()).decode() if as_json else "\n".join(report.lines()))
    sys.exit(0 if report.clean else 1)
