"""`lyrebird audit history`: what the audits that ran under Airflow have found."""

from __future__ import annotations

import json

import click

from include.cli.colours import painted
from include.cli.json_option import json_option

__all__ = ["command"]

_SHOWN = 20


@click.command(name="history")
@click.argument("kind", type=click.Choice(["search", "document", "table", "join", "replay", "chain"]), default="search")
@click.option("--audit", help="Only this one: an audit's name, a table, or a topic of the chains' audit.")
@click.option("--run", "run_id", help="Only this run of the kind's DAG, with all that it has found.")
@click.option("--runs", type=click.IntRange(1, 100), default=_SHOWN, show_default=True, help="How many runs.")
@json_option()
def command(kind: str, audit: str | None, run_id: str | None, runs: int, as_json: bool) -> None:
    """Show the newest runs of the DAGs of audits on this host: verdict, findings, positions."""
    from include.audit.history import KINDS, History, dag_of
    from include.audit.history_rows import rows_of
    from include.cli.table import table
    from include.errors import Terminal
    from include.settings.names import unknown

    known = next(each for each in KINDS if each == kind)
    kept = [each for each in History.of(known).runs() if run_id in (None, each.run_id)]
    if run_id is not None and not kept:
        raise Terminal("nothing of this run is kept", run=run_id, fix=f"`lyrebird audit history {kind}` lists runs.")
    every = [row for each in kept[:runs] for row in rows_of(known, each)]
    rows = [row for row in every if audit is None or _is(row.what, audit)]
    if audit is not None and every and not rows:
        raise unknown(audit, {_name(row.what) for row in every}, "no run that is shown has this audit", runs=len(kept))
    if as_json:
        click.echo(json.dumps({"kind": kind, "rows": [row.to_json() for row in rows]}))
        return
    if not rows:
        click.echo(f"no run of the DAG {dag_of(known)} is kept on this host: start it under Airflow")
        return
    head = ["at", "audit", "verdict", "took", "holds up to"]
    click.echo(painted(table(head, [[row.at[:19], row.what, row.said, row.effort, row.position] for row in rows])))
    for row in rows:
        if not row.clean:
            click.echo(f"\n{row.at[:19]} {row.what}, run {row.run_id}")
            for line in row.details:
                click.echo(f"  {line}")
            if row.next_command and not row.next_command.startswith("lyrebird audit history"):
                click.echo(f"  next: {row.next_command}")


def _is(what: str, audit: str) -> bool:
    """Whether a row is of that audit: `<audit>`, `<audit>/<topic>`, with its mode or its expectations behind."""
    name = _name(what)
    return name == audit or name.startswith(f"{audit}/")


def _name(what: str) -> str:
    return what.partition(" ")[0].removesuffix(":")
