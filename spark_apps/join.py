"""Joins the keyed changelogs of one application's joins, until it is stopped.

    spark-submit spark_apps/join.py --application join_sales

Ends with 0 after a stop request, 3 when another process has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys

from include.join.joins_spark import run
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", run))
