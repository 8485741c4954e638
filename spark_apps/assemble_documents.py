"""Assembles the documents of one application from the change log and the source's database, until it is stopped.

    spark-submit spark_apps/assemble_documents.py --application assemble_orders

Ends with 0 after a stop request, 3 when another process has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys

from include.document.assembler_spark import run
from include.log.running.application import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", run))
