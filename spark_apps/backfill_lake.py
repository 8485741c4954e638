"""Makes cuts of a partition group again from the raw copy or from Kafka, compares them, and ends; promotes nothing.

    spark-submit spark_apps/backfill_lake.py TOPIC --from 2026-11-20 [--to 2026-11-21] [--version 2] [--run NAME]

Begun again under the same --run it goes on. Prints how far it is, then the comparison, and it as JSON on the last
line. Ends with 0 when all cuts are made, as expected or not (`lyrebird lake promote` judges), 1 after an error (one
line on stderr), 75 after one that may pass.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from include.errors import LyrebirdError, Transient
from include.lake.backfill.backfill_spark import backfill_by_spark
from include.lake.backfill.request import BackfillRequest
from include.log.running.application import log_to_stderr
from include.settings.deployment import Deployment


def tell(done: int, total: int) -> None:
    """A line for the task's log."""
    sys.stdout.write(f"{done} of {total} cuts are made\n")
    sys.stdout.flush()


@click.command(help=__doc__)
@BackfillRequest.options()
def main(**asked: Any) -> None:
    """Load the deployment files, backfill; ends with the exit code."""
    log_to_stderr()
    try:
        found = backfill_by_spark(Deployment.load(), BackfillRequest(**asked), tell)
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(75 if isinstance(error, Transient) else 1)
    sys.stdout.write("\n".join([*found.lines(), json.dumps(found.to_json())]) + "\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
