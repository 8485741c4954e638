"""Compares tables of a source with their copies, once, and ends.

    spark-submit spark_apps/audit_tables.py --source shop [--table orders] [--against lake] [--where CONDITION]
        [--repair ID] [--before FILE] [--report FILE]

With `--repair` the running capture reads again what is wrong, each request once for the same ID; then it is compared
again. With `--before` leaves are counted that have changed since the reports in that file. Prints findings and the next
command, then all reports as JSON on the last line. Ends with 0 when nothing is wrong, 1 with findings, 2 when it cannot
be said (one line on stderr), 4 when nothing is there yet. With `--report` the JSON also goes to that file, and findings
end with 0, as nothing does: who reads the report judges them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from include.audit.merkle.definition import Against, table_audit
from include.audit.merkle.repair import Repair
from include.audit.merkle.report import summary
from include.audit.merkle.run import TablesAudit
from include.audit.merkle.run_params import TableAuditRun
from include.audit.nothing import exit_status
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.connections import Kafka
from include.settings.deployment import Deployment


@click.command(help=__doc__)
@TableAuditRun.options("source", required=True)
@TableAuditRun.options("tables", "against", "where")
@click.option("--repair", metavar="ID", help="Mend what is found; ID: the same when this is tried again.")
@click.option("--before", type=click.Path(path_type=Path), help="File of a run before, as the DAG keeps it.")
@click.option("--report", type=click.Path(path_type=Path), help="File for the reports as JSON.")
def main(
    source: str,
    tables: tuple[str, ...],
    against: Against | None,
    where: str,
    repair: str | None,
    before: Path | None,
    report: Path | None,
) -> None:
    """Load the deployment files, audit; ends with the exit code."""
    reports = []
    trees = json.loads(before.read_text(encoding="utf-8"))["tables"] if before else {}
    try:
        deployment = Deployment.load()
        audit = table_audit(deployment, source)
        clock = SystemClock()
        kafka = deployment.one("kafka", Kafka)
        mends = Repair(kafka, audit.source, clock, repair) if repair else None
        spark = session("audit_tables")
        try:
            found = TablesAudit(spark, deployment, audit, clock, against=against, where=where, repair=mends)
            for table in found.tables(tables):
                reports.append(found.run(table, trees.get(f"{source} {table}")))
                sys.stdout.write("\n".join([*reports[-1].lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    sys.stdout.write(summary(reports) + "\n")
    text = json.dumps({"tables": {each.table: each.to_json() for each in reports}})
    sys.stdout.write(text + "\n")
    if report:
        write_atomically(report, text)
        # What another try may help with is tried again.
        sys.exit(2 if any(each.verdict == "failed" and each.transient for each in reports) else 0)
    sys.exit(exit_status(reports) or (2 if any(each.verdict == "failed" for each in reports) else 0))


if __name__ == "__main__":
    main()
