"""Compares tables of a source with their copies, once, and ends.

    spark-submit spark_apps/audit_tables.py --source shop [--table orders] [--against lake] [--where CONDITION]
        [--repair ID] [--before FILE] [--report FILE]

With `--repair` the running capture reads again what is wrong, each request once for the same ID; then it is compared
again. With `--before` leaves are counted that have changed since the reports in that file. Prints findings and the next
command, then all reports as JSON on the last line. Ends with 0 when nothing is wrong, 1 with findings, 2 when it cannot
be said (one line on stderr). With `--report` the JSON also goes to that file, and findings end with 0: who reads the
report judges them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.audit.merkle.definition import table_audit
from include.audit.merkle.repair import Repair
from include.audit.merkle.report import summary
from include.audit.merkle.run import TablesAudit
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.connections import Kafka
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="entry of section `sources`")
    parser.add_argument("--table", dest="tables", action="append", default=[], help="again for another; default: all")
    parser.add_argument("--against", choices=["topic", "lake"], help="the copy")
    parser.add_argument("--repair", metavar="ID", help="mend what is found; ID: the same when this is tried again")
    parser.add_argument("--where", default="", help="condition that chooses rows")
    parser.add_argument("--before", type=Path, help="file of a run before, as the DAG keeps it")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    arguments = parser.parse_args()
    reports = []
    before = json.loads(arguments.before.read_text(encoding="utf-8"))["tables"] if arguments.before else {}
    try:
        deployment = Deployment.load()
        audit = table_audit(deployment, arguments.source)
        clock = SystemClock()
        kafka = deployment.one("kafka", Kafka)
        repair = Repair(kafka, audit.source, clock, arguments.repair) if arguments.repair else None
        spark = session("audit_tables")
        try:
            found = TablesAudit(
                spark, deployment, audit, clock, against=arguments.against, where=arguments.where, repair=repair
            )
            for table in found.tables(arguments.tables):
                reports.append(found.run(table, before.get(f"{arguments.source} {table}")))
                sys.stdout.write("\n".join([*reports[-1].lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(summary(reports) + "\n")
    text = json.dumps({"tables": {each.table: each.to_json() for each in reports}})
    sys.stdout.write(text + "\n")
    if arguments.report:
        write_atomically(arguments.report, text)
        # What another try may help with is tried again.
        return 2 if any(each.verdict == "failed" and each.transient for each in reports) else 0
    if any(each.findings for each in reports):
        return 1
    return 2 if any(each.verdict == "failed" for each in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
