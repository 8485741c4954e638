"""Runs the event time jobs of one application until it is stopped.

    spark-submit spark_apps/process_events.py --application process_scooters

Ends with 0 after a stop request, 3 when another process has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys

from include.eventtime.jobs_spark import run
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", run))
