"""Replays days of event time jobs and compares them with what was live, once, and ends.

    spark-submit spark_apps/replay_events.py --job scooter_status --day 2026-11-02 [--report FILE]

Prints what each day came to, then all reports as JSON on the last line. Ends with 0 when all is the same, 1 when
something differs or a day cannot be replayed, 2 when nothing can be said (one line on stderr). With `--report` the JSON
also goes to FILE, and differences end with 0: who reads the report judges it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.eventtime.rerun.rerun_spark import verify_days
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, replay; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", dest="names", action="append", required=True, help="again for another")
    parser.add_argument("--day", dest="days", action="append", required=True, help="such as 2026-11-02, UTC; again")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    arguments = parser.parse_args()
    reports = []
    try:
        deployment = Deployment.load()
        spark = session("replay_events")
        try:
            for report in verify_days(spark, deployment, arguments.names, arguments.days, SystemClock()):
                reports.append(report)
                said = report.get("said") or [f"{report['job']} on {report['day']}: {report['error']}"]
                sys.stdout.write("\n".join([*said, ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps({"replays": reports})
    sys.stdout.write(text + "\n")
    if arguments.report:
        write_atomically(arguments.report, text)
    return 0 if arguments.report or all(report["clean"] for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
