"""Replays days of event time jobs and compares them with what was live, once, and ends.

    spark-submit spark_apps/replay_events.py --job scooter_status --day 2026-11-02 [--report FILE]

Prints what each day came to, then all reports as JSON on the last line. Ends with 0 when all is the same, 1 when
something differs or a day cannot be replayed, 2 when nothing can be said (one line on stderr). With `--report` the JSON
also goes to FILE, and differences end with 0: who reads the report judges it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from include.clock import SystemClock
from include.errors import LyrebirdError
from include.eventtime.rerun.rerun_spark import verify_days
from include.eventtime.rerun.run_params import ReplayRun
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


@click.command(help=__doc__)
@ReplayRun.options("jobs", required=True)
@click.option("--day", "days", multiple=True, required=True, help="Such as 2026-11-02, UTC. Again for another.")
@click.option("--report", type=click.Path(path_type=Path), help="File for the reports as JSON.")
def main(jobs: tuple[str, ...], days: tuple[str, ...], report: Path | None) -> None:
    """Load the deployment files, replay; ends with the exit code."""
    reports = []
    try:
        deployment = Deployment.load()
        spark = session("replay_events")
        try:
            for each in verify_days(spark, deployment, jobs, days, SystemClock()):
                reports.append(each)
                said = each.get("said") or [f"{each['job']} on {each['day']}: {each['error']}"]
                sys.stdout.write("\n".join([*said, ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    text = json.dumps({"replays": reports})
    sys.stdout.write(text + "\n")
    if report:
        write_atomically(report, text)
    sys.exit(0 if report or all(each["clean"] for each in reports) else 1)


if __name__ == "__main__":
    main()
