"""Stores every record of topics on object storage as it is, looking at none, until it is stopped.

    spark-submit spark_apps/lake_backup.py --application lake_backup

Runs backup groups alone: no parser can take it down. Ends with 0 after a stop request, 3 when a newer revision of a
group has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys
from functools import partial

from include.lake.groups_spark import run_application
from include.lake.incidents.incidents import ending_told
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", partial(run_application, kind="backup"), ending_told))
