"""`lyrebird doctor`: what this machine lacks."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from include.cli.colours import painted
from include.cli.json_option import json_option
from include.cli.table import table
from include.settings.environment import state_folder

__all__ = ["command"]

_SIGNS = {"ok": "ok", "note": "note", "missing": "MISSING", "wrong": "WRONG"}


@click.command(name="doctor")
@json_option("Print one JSON object.")
def command(as_json: bool) -> None:
    """Look for what the stack needs: Java, disk, memory, ports, libraries. Changes nothing.

    Exit code 0 when `lyrebird up` can work here, 1 when something is missing, or Airflow is set so that streams would
    not run as they must (its executor, its heartbeats).
    """
    from include.local.doctor import examine

    checks = examine(state_folder())
    bad = [check for check in checks if check.verdict in {"missing", "wrong"}]
    if as_json:
        click.echo(json.dumps({"ok": not bad, "checks": [asdict(check) for check in checks]}))
    else:
        click.echo(painted(table(("check", "", "found"), [(c.name, _SIGNS[c.verdict], c.found) for c in checks])))
        for check in checks:
            if check.fix:
                click.echo(f"\n{check.name}: {check.fix}")
    if bad:
        sys.stderr.write(f"error: {len(bad)} missing or wrong: {', '.join(check.name for check in bad)}\n")
        raise click.exceptions.Exit(1)
