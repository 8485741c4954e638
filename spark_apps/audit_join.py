"""Compares joined topics with what SQL makes of their inputs, once, and ends.

    spark-submit spark_apps/audit_join.py --audit reviewed [--sample 16] [--report FILE]

Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when clean, 1 with
findings, 2 when it cannot be said (one line on stderr), 4 when nothing is there yet. With `--report` the JSON also goes
to FILE, and findings, or nothing, end with 0: who reads the report judges it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from include.audit.definition import join_audits
from include.audit.joins.joins_spark import judged_or_nothing
from include.audit.joins.report import JoinReport
from include.audit.joins.run_params import JoinAuditRun
from include.audit.nothing import NothingJudged, exit_status
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


@click.command(help=__doc__)
@JoinAuditRun.options("audits", required=True)
@JoinAuditRun.options("sample")
@click.option("--report", type=click.Path(path_type=Path), help="File for the reports as JSON.")
def main(audits: tuple[str, ...], sample: int, report: Path | None) -> None:
    """Load the deployment files, audit; ends with the exit code."""
    reports: dict[str, JoinReport | NothingJudged] = {}
    try:
        deployment = Deployment.load()
        spark = session("audit_join")
        try:
            for name, join in join_audits(deployment, audits).items():
                found = judged_or_nothing(spark, deployment, name, join, clock=SystemClock(), sample=sample)
                reports[name] = found
                sys.stdout.write("\n".join([*found.lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    text = json.dumps({"audits": {name: each.to_json() for name, each in reports.items()}})
    sys.stdout.write(text + "\n")
    if report:
        write_atomically(report, text)
    sys.exit(0 if report else exit_status(list(reports.values())))


if __name__ == "__main__":
    main()
