"""`lyrebird capture check`: what a source's server has that stands in capture's way."""

from __future__ import annotations

import sys

import click
import orjson

from include.cli.capture.options import source_option
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import LyrebirdError

__all__ = ["check_source"]


@click.command(name="check")
@source_option
@json_option()
def check_source(name: str, as_json: bool) -> None:
    """Say what on the server stands in capture's way, or needs care; exit code 1 when something refuses capture."""
    from include.settings.deployment import Deployment
    from include.source.database.binlog_files import BinlogFiles
    from include.source.database.preflight import preflight, short_horizon
    from include.source.database.purge import PurgeHorizon
    from include.source.definition import load_source

    source = load_source(Deployment.load(), name)
    problems = preflight(source)
    try:
        horizon = BinlogFiles(source, SystemClock()).look_at_end().horizon
    except LyrebirdError as error:
        # What keeps the server from telling is among the findings.
        horizon = PurgeHorizon(None, f"unknown: {error}")
    problems += short_horizon(horizon)
    findings = [
        {"level": each.level, "place": each.place, "problem": each.problem, "fix": each.fix} for each in problems
    ]
    refused = any(each.level == "refuse" for each in problems)
    lines = [f"{each.level}: {each.place} {each.problem}. {each.fix}" for each in problems]
    hours = "" if horizon.hours is None else f"after {horizon.hours:.1f} h, by "
    lines.append(f"purge of what is written now: {hours}{horizon.basis}")
    if not refused:
        lines.append(f"{source.place} can be captured")
    purge = {"hours": horizon.hours, "basis": horizon.basis}
    value = {"source": name, "server": source.place, "purge": purge, "findings": findings}
    click.echo(orjson.dumps(value).decode() if as_json else "\n".join(lines))
    if refused:
        sys.exit(1)
