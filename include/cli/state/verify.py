"""`lyrebird state verify`: the state of a join against the rows of its inputs."""

from __future__ import annotations

import sys

import click
import orjson

from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.settings.completion import names_of

__all__ = ["command"]

CANNOT_VERIFY = 2


@click.command(name="verify")
@click.argument("name", shell_complete=names_of("joins"))
@json_option("Print one JSON object with the findings, nothing else.")
def command(name: str, as_json: bool) -> None:
    """Compare the state of join NAME with the newest rows of its inputs, row by row.

    Changes nothing, and may run under load: both sides are cut at the input offsets that the join spoke for last. Names
    rows that the state lacks (missing), holds without reason (extra), holds as they were before (stale), as no record
    brought them (altered), or where nobody looks for them (misplaced). Behind `state import` it audits the outputs as
    well, and the join, which waits for it, goes on when both are clean. Exit code: 0 clean, 1 findings, 2 it cannot be
    said.
    """
    from include.audit.join_state.join_state_spark import verified
    from include.join.config.deployed import declared_joins
    from include.log.running.batches_spark import session
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    try:
        deployment = Deployment.load()
        joins = declared_joins(deployment)
        require_known(name, joins, "no join of this name is declared")
        spark = session("verify_state")
        try:
            report, outputs = verified(spark, deployment, joins[name], clock=SystemClock())
        finally:
            spark.stop()
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_VERIFY)
    clean = report.clean and (outputs is None or outputs.clean)
    if as_json:
        said = report.to_json() if outputs is None else {**report.to_json(), "outputs": outputs.to_json()}
        click.echo(orjson.dumps(said).decode())
    else:
        click.echo(painted("\n".join([*report.lines(), *(outputs.lines() if outputs is not None else ())])))
        if clean and outputs is not None:
            click.echo("the join goes on from the imported state")
    sys.exit(0 if clean else 1)
