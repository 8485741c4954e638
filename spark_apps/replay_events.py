"""Replays a day of event time jobs and compares it with what was live, once, and ends.

    spark-submit spark_apps/replay_events.py --job scooter_status --day 2026-11-02 [--report FILE]

Prints what differs, then all reports as JSON on the last line. Ends with 0 when all is the same, 1 when something
differs, 2 when it cannot be said (one line on stderr). With `--report` the JSON also goes to FILE, and differences end
with 0: who reads the report judges it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.errors import LyrebirdError
from include.eventtime.rerun.stream import shown_by, verify
from include.log.stream import session
from include.metrics.exporter import write_atomically
from include.settings.connections import Registry
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, replay; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", dest="names", action="append", required=True, help="again for another")
    parser.add_argument("--day", required=True, help="such as 2026-11-02, UTC")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    arguments = parser.parse_args()
    reports = {}
    try:
        deployment = Deployment.load()
        shown = shown_by(deployment.one("registry", Registry))
        spark = session("replay_events")
        try:
            for name in arguments.names:
                report = verify(spark, deployment, name, arguments.day, lambda *_: None)
                reports[name] = report.to_json(shown)
                sys.stdout.write("\n".join([*report.lines(reports[name]["first"]), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps({"replays": reports})
    sys.stdout.write(text + "\n")
    if arguments.report:
        write_atomically(arguments.report, text)
    return 0 if arguments.report or all(report["clean"] for report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
