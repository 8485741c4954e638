"""Compares a topic with its index once, the expected side folded by Spark, and ends.

    spark-submit spark_apps/audit_search.py --audit assembled_order

Prints findings and the next command, then the report as JSON on the last line. Ends with 0 when clean, 1 with
findings, 2 when it cannot be said (one line on stderr).
"""

from __future__ import annotations

import argparse
import json
import sys

from include.audit.definition import search_audit
from include.audit.stream import audit_by_spark
from include.errors import LyrebirdError
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", required=True, help="its name in the deployment files")
    arguments = parser.parse_args()
    try:
        deployment = Deployment.load()
        report = audit_by_spark(deployment, search_audit(deployment, arguments.audit))
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write("\n".join([*report.lines(), json.dumps(report.to_json())]) + "\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
