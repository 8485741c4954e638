"""`lyrebird audit join`: inputs of a join against the joined topic."""

from __future__ import annotations

import sys
import uuid

import click
import orjson

from include.audit.joins.report import JoinReport
from include.audit.joins.run_params import JoinAuditRun
from include.audit.nothing import exit_status
from include.cli.audit.options import Share
from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.requests.asking import ask
from include.log.requests.records import Request
from include.settings.completion import names_of
from include.settings.connections import Kafka

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.command(name="join")
@click.argument("name", shell_complete=names_of("joins", "audits"))
@JoinAuditRun.options("sample", type=Share(), default="1/1", metavar="1/N")
@click.option("--repair", is_flag=True, help="Ask the join to write what is wrong again.")
@json_option("Print one JSON object with the findings, nothing else.")
def command(name: str, sample: int, repair: bool, as_json: bool) -> None:
    """Compare the topic of join NAME, or of the audit of that name, with what SQL makes of its inputs.

    Changes nothing without --repair, and may run under load: both sides are cut at the input offsets that the join
    spoke for last. Names outputs that the topic lacks (missing), holds without reason (extra), holds of older rows
    (stale) or as no rows make them (altered). Exit code: 0 clean, 1 findings, 2 it cannot be said, 4 the join has
    written nothing yet.
    """
    from include.audit.definition import join_audits
    from include.audit.joins.joins_spark import judged_or_nothing
    from include.log.running.batches_spark import session
    from include.settings.deployment import Deployment

    try:
        deployment = Deployment.load()
        (join,) = join_audits(deployment, [name]).values()
        spark = session("audit_join")
        try:
            report = judged_or_nothing(spark, deployment, name, join, clock=SystemClock(), sample=sample)
        finally:
            spark.stop()
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_AUDIT)
    if repair and isinstance(report, JoinReport) and report.findings:
        _ask(deployment.one("kafka", Kafka), report)
    click.echo(orjson.dumps(report.to_json()).decode() if as_json else painted("\n".join(report.lines())))
    sys.exit(exit_status([report]))


def _ask(kafka: Kafka, report: JoinReport) -> None:
    """The keys that are wrong, and where some are missing all outputs: nobody knows their keys but the state."""
    for keys in ([report.named] if report.named else []) + ([()] if report.whole else []):
        request = Request(uuid.uuid4().hex, "repair", "audit", SystemClock().now_us(), keys=keys)
        ask(kafka, report.topic, request)
        what = f"{len(keys):,} keys" if keys else "all outputs"
        click.echo(f"asked for a repair of {what}: request {request.id}", err=True)
