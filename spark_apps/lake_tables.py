"""Keeps topics as tables of their current state on the lake, until it is stopped.

    spark-submit spark_apps/lake_tables.py --application lake_tables

Ends with 0 after a stop request, 3 when another process has written one of its tables, 1 after any other error (one
line on stderr).
"""

from __future__ import annotations

import sys

from include.lake.tables.tables_spark import run
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", run))
