"""Compares topics with their indexes once, the expected side folded by Spark, and ends.

    spark-submit spark_apps/audit_search.py --audit assembled_order [--mode bisect] [--repair] [--report FILE]

Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when clean, 1 with
findings, 2 when it cannot be said (one line on stderr). With `--report` the JSON also goes to FILE, and findings end
with 0: who reads the report judges it. With `--expectations AUDIT FILE` those of an audit follow, their result in FILE.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.audit.definition import search_audits
from include.audit.expectations.expectations_spark import expectations_after
from include.audit.search.expected_spark import audit_by_spark
from include.audit.search.report import together
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", dest="names", action="append", required=True, help="again for another")
    parser.add_argument("--mode", choices=["digest", "bisect"], default="digest", help="how differences are found")
    parser.add_argument("--repair", action="store_true", help="write anew what is wrong, and audit again")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    parser.add_argument(
        "--expectations", nargs=2, action="append", default=[], metavar=("AUDIT", "FILE"), help="look at these as well"
    )
    arguments = parser.parse_args()
    try:
        deployment = Deployment.load()
        specs = [spec for name in arguments.names for spec in search_audits(deployment, name)]
        results = {audit: Path(file) for audit, file in arguments.expectations}
        then = expectations_after(deployment, arguments.report, results, SystemClock())
        reports = audit_by_spark(deployment, specs, repair=arguments.repair, mode=arguments.mode, then=then)
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps(together(reports))
    sys.stdout.write("\n".join([*(line for report in reports for line in report.lines()), text]) + "\n")
    return 0 if arguments.report or all(report.clean for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
