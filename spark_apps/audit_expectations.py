"""Looks at what a topic's documents are expected to be, at the offsets of a search audit, and ends.

    spark-submit spark_apps/audit_expectations.py --audit assembled_order --report FILE [--result FILE]

FILE of `--report` is what `audit_search.py --report` has written. Prints each expectation, then the result as JSON on
the last line. Ends with 0 when all is as expected, 1 when not, 2 when it cannot be said (one line on stderr), 4 when
nothing is indexed yet. With `--result` the JSON also goes there, and it ends with 0: who reads the result judges it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.audit.expectations.expectations_spark import expectations_by_spark
from include.audit.expectations.job import windows_in
from include.audit.nothing import NOTHING_STATUS
from include.clock import SystemClock
from include.errors import LyrebirdError
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, look; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audit", required=True, help="name in the deployment files")
    parser.add_argument("--report", type=Path, required=True, help="the search audit's report, which says where to cut")
    parser.add_argument("--result", type=Path, help="file for the result as JSON")
    arguments = parser.parse_args()
    try:
        windows = windows_in(arguments.report, arguments.audit)
        report = expectations_by_spark(Deployment.load(), arguments.audit, windows, SystemClock())
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps(report.to_json())
    sys.stdout.write("\n".join([*report.lines(), text]) + "\n")
    if arguments.result:
        write_atomically(arguments.result, text)
    if arguments.result:
        return 0
    return 1 if report.failed else 0 if report.judged else NOTHING_STATUS


if __name__ == "__main__":
    sys.exit(main())
