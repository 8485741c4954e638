"""Assembles the documents of one application from the change log and the source's database, until it is stopped.

    spark-submit spark_apps/assemble_documents.py --application assemble_orders

Ends with 0 after a stop request, 3 when another process has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import argparse
import logging
import sys

from include.document.stream import run
from include.errors import Fenced, LyrebirdError
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, run; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--application", required=True, help="its name in the deployment files")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("httpx", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        run(arguments.application, Deployment.load())
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3 if isinstance(error, Fenced) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
