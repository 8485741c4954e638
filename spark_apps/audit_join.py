"""Compares joined topics with what SQL makes of their inputs, once, and ends.

    spark-submit spark_apps/audit_join.py --audit reviewed [--sample 16] [--report FILE]

Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when clean, 1 with
findings, 2 when it cannot be said (one line on stderr). With `--report` the JSON also goes to FILE, and findings end
with 0: who reads the report judges it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.audit.definition import join_audits
from include.audit.joins.joins_spark import audit_join
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", dest="names", action="append", required=True, help="again for another")
    parser.add_argument("--sample", type=int, default=1, help="one of so many outputs is compared")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    arguments = parser.parse_args()
    reports = []
    try:
        deployment = Deployment.load()
        spark = session("audit_join")
        try:
            for name, join in join_audits(deployment, arguments.names).items():
                report = audit_join(spark, deployment, name, join, clock=SystemClock(), sample=arguments.sample)
                reports.append(report)
                sys.stdout.write("\n".join([*report.lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps({"audits": {report.audit: report.to_json() for report in reports}})
    sys.stdout.write(text + "\n")
    if arguments.report:
        write_atomically(arguments.report, text)
    return 0 if arguments.report or all(report.clean for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
