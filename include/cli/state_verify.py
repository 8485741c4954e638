"""`lyrebird state verify`: the state of a join against the rows of its inputs."""

from __future__ import annotations

import sys

import click
import orjson

from include.clock import SystemClock
from include.errors import LyrebirdError

__all__ = ["command"]

CANNOT_VERIFY = 2


@click.command(name="verify")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the findings, nothing else.")
def command(name: str, as_json: bool) -> None:
    """Compare the state of join NAME with the newest rows of its inputs, row by row.

    Changes nothing, and may run under load: both sides are cut at the input offsets that the join spoke for last. Names
    rows that the state lacks (missing), holds without reason (extra), holds as they were before (stale), as no record
    brought them (altered), or where nobody looks for them (misplaced). Run it after `state import`, before the join
    starts again. Exit code: 0 clean, 1 findings, 2 it cannot be said.
    """
    from include.audit.join_state.stream import verify_state
    from include.join.config.deployed import declared_joins
    from include.log.stream import session
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    try:
        deployment = Deployment.load()
        joins = declared_joins(deployment)
        require_known(name, joins, "no join of this name is declared")
        spark = session("verify_state")
        try:
            report = verify_state(spark, deployment, joins[name], clock=SystemClock())
        finally:
            spark.stop()
    except LyrebirdError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(CANNOT_VERIFY)
    click.echo(orjson.dumps(report.to_json()).decode() if as_json else "\n".join(report.lines()))
    sys.exit(0 if report.clean else 1)
