"""`lyrebird audit search`: topic against index."""

from __future__ import annotations

import sys
from typing import Unpack

import click
import orjson

from include.audit.definition import search_audits
from include.audit.nothing import exit_status
from include.audit.search.audit import SearchAuditSettings, judged_or_nothing
from include.audit.search.platform import server_sides
from include.audit.search.report import together
from include.audit.search.run_params import SearchAuditRun
from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.errors import LyrebirdError
from include.settings.completion import names_of
from include.settings.deployment import Deployment

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.command(name="search")
@click.argument("name", shell_complete=names_of("audits", "documents"))
@SearchAuditRun.options("mode")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=None,
    metavar="SECONDS",
    help="Wait first, at most so long, until the index has all that the topic holds now.  [default: 10 for bisect, "
    "0 for digest]",
)
@click.option(
    "--since",
    type=click.Choice(["begin", "last"]),
    default="begin",
    show_default=True,
    help="Which keys a bisect compares: all, or those with a record since the last clean audit.",
)
@click.option(
    "--scrub",
    type=click.Choice(["changed", "all", "none"]),
    default="changed",
    show_default=True,
    help="Which documents a digest also reads whole: what has changed since the last clean audit and a share of the "
    "rest, all of them, or none.",
)
@SearchAuditRun.options("repair")
@json_option("Print one JSON object with every finding, nothing else.")
def command(name: str, repair: bool, as_json: bool, **how: Unpack[SearchAuditSettings]) -> None:
    """Compare topic and index of audit NAME, or of the topic NAME (e.g. assembled_order).

    Changes nothing unless --repair is given, and may run under load. Names each document that the index lacks
    (missing), holds without reason (extra), holds in an older state (stale) or in one that no record made (altered),
    tells how many requests that took, and up to which offsets and source position it holds. Exit code: 0 clean (after
    the repair, if one was asked for), 1 findings, 2 it cannot be said, 4 nothing is indexed yet.
    """
    try:
        deployment = Deployment.load()
        specs = search_audits(deployment, name)
        with server_sides(deployment) as sides:
            reports = [judged_or_nothing(spec, sides, repair=repair, **how) for spec in specs]
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_AUDIT)
    if as_json:
        found = together(reports) if len(reports) > 1 else reports[0].to_json()
        click.echo(orjson.dumps(found).decode())
    else:
        click.echo(painted("\n".join(line for report in reports for line in report.lines())))
    sys.exit(exit_status(reports))
