"""Indexes the documents of a topic into Elasticsearch, until it is stopped.

    spark-submit spark_apps/index_documents.py --application index_orders

Ends with 0 after a stop request, 3 when another process has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys

from include.index.indexer_spark import run_application
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", run_application))
