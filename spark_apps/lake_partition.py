"""Parses the records of topics and files them on object storage by what they say, until it is stopped.

    spark-submit spark_apps/lake_partition.py --application lake_partition

Runs partition groups. Ends with 0 after a stop request, 3 when a newer revision of a group has taken over, 1 after any
other error (one line on stderr).
"""

from __future__ import annotations

import sys
from functools import partial

from include.lake.groups_spark import run_application
from include.lake.incidents.incidents import ending_told
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", partial(run_application, kind="partition"), ending_told))
