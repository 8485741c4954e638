"""`lyrebird audit chain`: prove that the lake has every record once, or name what is not as it should be."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from include.audit.chain.run_params import ChainAuditRun
from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.clock import SystemClock
from include.errors import LyrebirdError, SettingsError
from include.settings.renamed import RenamedOption

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.command(name="chain")
@ChainAuditRun.options("topics")
@click.option("--all", "every", is_flag=True, help="All topics that the groups have.")
@ChainAuditRun.options("groups")
@click.option("--labels", is_flag=True, help="Ask each object who put it, too: one request each.")
@ChainAuditRun.options("deep")
@click.option(
    "--repair",
    cls=RenamedOption,
    before=("--mend",),
    is_flag=True,
    help="Mend summaries (deletes by section `expiry`), and commits that only they have.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write the JSON there, too, and end with 0 if it is.")
@json_option("Print JSON, nothing else.")
def command(
    topics: tuple[str, ...],
    every: bool,
    groups: tuple[str, ...],
    labels: bool,
    deep: bool,
    repair: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Walk the chains of TOPIC in each group: every offset is in exactly one committed object, and none is changed.

    Names missing, changed and extra objects, holes, offsets found twice, and counts in which groups differ, each with
    the next command. Runs beside everything; writes summaries of commits where they are missing. Exit code: 0 clean,
    1 findings, 2 it cannot be said, 4 nothing is stored yet.
    """
    from include.audit.chain.audit import ChainAuditOptions
    from include.audit.chain.platform import audit_on_servers, groups_of, without_anything
    from include.audit.chain.report import together
    from include.audit.nothing import exit_status
    from include.metrics.exporter import write_atomically
    from include.settings.deployment import Deployment

    try:
        if bool(topics) == every:
            raise SettingsError("no topic is named, or all and some", fix="Name topics, or say --all.")
        options = ChainAuditOptions("bytes" if deep else "labels" if labels else "names")
        with progress_bar("begins", quiet=as_json) as progress:
            asked, deployment, clock = ChainAuditRun(topics=topics, groups=groups), Deployment.load(), SystemClock()
            reports = list(audit_on_servers(deployment, asked, clock, options, progress, mend=repair))
            # A group may lack a topic that is named.
            nothing = without_anything(groups_of(deployment, asked), reports, clock.now_us()) if every else []
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_AUDIT)
    told = orjson.dumps(together(reports, nothing)).decode()
    if as_json:
        click.echo(told)
    else:
        told_lines = [line for each in reports for line in each.lines()]
        told_lines += [line for each in nothing for line in each.lines()]
        click.echo(painted("\n".join(told_lines)))
    if report is not None:
        write_atomically(report, told)
    sys.exit(0 if report is not None else exit_status([*reports, *nothing]))
