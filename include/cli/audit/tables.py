"""`lyrebird audit tables`: tables of a source against their copies."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import click
import orjson

from include.audit.merkle.run_params import TableAuditRun
from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.settings.completion import names_of

if TYPE_CHECKING:
    from include.audit.merkle.definition import Against, Of

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.command(name="tables")
@click.option(
    "--source",
    default="",
    help="An entry of `sources`; may be left out where there is one.",
    shell_complete=names_of("sources"),
)
@TableAuditRun.options("tables", "against")
@click.option(
    "--of",
    "of",
    type=click.Choice(["database", "topic"]),
    default="database",
    help="What is right. `topic`: the lake's tables against their topics, without asking the server for a row.",
)
@TableAuditRun.options("where", "date_column", "date_from", "date_until", "repair")
@json_option("Print one JSON object with the findings, nothing else.")
def command(
    source: str,
    tables: tuple[str, ...],
    against: Against | None,
    of: Of,
    where: str,
    date_column: str,
    date_from: str,
    date_until: str,
    repair: bool,
    as_json: bool,
) -> None:
    """Compare tables of a database with their copies, row by row, by a tree of hashes.

    Changes nothing unless --repair is given, and may run under load: each range of rows is compared as of a snapshot of
    its own. Names rows that the copy lacks (missing), that it alone has (extra), that it has as they once were (stale)
    or otherwise (altered), with the columns that differ; and what could not be compared. Exit code: 0 nothing is wrong
    (after the repair, if one was asked for), 1 findings, 2 some table could not be looked at, 4 nothing of any is there
    yet.
    """
    from include.audit.merkle.definition import only_source, table_audit
    from include.audit.merkle.repair import Repair
    from include.audit.merkle.report import summary
    from include.audit.merkle.run import TablesAudit
    from include.audit.nothing import exit_status
    from include.clock import SystemClock
    from include.errors import LyrebirdError
    from include.log.running.batches_spark import session
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.source.run_params import dates_condition
    from include.source.snapshot.condition import all_hold

    if of == "topic" and (repair or against == "topic"):
        raise click.UsageError(
            "--of topic goes with neither --repair nor --against topic: what is wrong in the lake alone is mended by"
            " `lyrebird table rebuild`"
        )
    try:
        deployment = Deployment.load()
        chosen = all_hold(where, dates_condition(date_column, date_from, date_until, "--{}"))
        audit = table_audit(deployment, source or only_source(deployment))
        clock = SystemClock()
        mends = Repair(deployment.one("kafka", Kafka), audit.source, clock, str(uuid.uuid4())) if repair else None
        spark = session("audit_tables")
        try:
            tables_audit = TablesAudit(
                spark,
                deployment,
                audit,
                clock,
                against=against,
                of=of,
                where=chosen,
                say=lambda text: click.echo(text, err=True),
                repair=mends,
            )
            reports = []
            for table in tables_audit.tables(tables):
                report = tables_audit.run(table)
                reports.append(report)
                if not as_json:
                    click.echo(painted("\n".join(report.lines())))
        finally:
            spark.stop()
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_AUDIT)
    if as_json:
        click.echo(orjson.dumps({"tables": {report.table: report.to_json() for report in reports}}).decode())
    else:
        click.echo(summary(reports))
    status = exit_status(reports)
    sys.exit(status or (CANNOT_AUDIT if any(report.verdict == "failed" for report in reports) else 0))
