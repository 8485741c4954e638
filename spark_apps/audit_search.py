"""Compares topics with their indexes once, the expected side folded by Spark, and ends.

    spark-submit spark_apps/audit_search.py --audit assembled_order [--mode bisect] [--repair] [--report FILE]

Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when clean, 1 with
findings, 2 when it cannot be said (one line on stderr), 4 when nothing is indexed yet. With `--report` the JSON also
goes to FILE, and it ends with 0: who reads the report judges it. With `--expectations AUDIT FILE` those of an audit
follow, their result in FILE.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from include.audit.definition import search_audits
from include.audit.expectations.expectations_spark import expectations_after
from include.audit.nothing import exit_status
from include.audit.search.audit import AuditMode
from include.audit.search.expected_spark import audit_by_spark
from include.audit.search.report import together
from include.audit.search.run_params import SearchAuditRun
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.settings.deployment import Deployment


@click.command(help=__doc__)
@SearchAuditRun.options("audits", required=True)
@SearchAuditRun.options("mode", "repair")
@click.option("--report", type=click.Path(path_type=Path), help="File for the reports as JSON.")
@click.option("--expectations", type=(str, Path), multiple=True, metavar="AUDIT FILE", help="Look at these as well.")
def main(
    audits: tuple[str, ...],
    mode: AuditMode,
    repair: bool,
    report: Path | None,
    expectations: tuple[tuple[str, Path], ...],
) -> None:
    """Load the deployment files, audit; ends with the exit code."""
    try:
        deployment = Deployment.load()
        specs = [spec for name in audits for spec in search_audits(deployment, name)]
        then = expectations_after(deployment, report, dict(expectations), SystemClock())
        reports = audit_by_spark(deployment, specs, repair=repair, mode=mode, then=then)
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    text = json.dumps(together(reports))
    sys.stdout.write("\n".join([*(line for each in reports for line in each.lines()), text]) + "\n")
    sys.exit(0 if report else exit_status(reports))


if __name__ == "__main__":
    main()
