"""Compares the documents of topics with the database, once, and ends.

    spark-submit spark_apps/audit_documents.py --topic assembled_order [--share 16] [--repair ID] [--report FILE]

With `--repair` the running assembler writes anew what is wrong, once for the same ID; then it is looked at again.
Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when nothing is wrong, 1
with findings, 2 when it cannot be said (one line on stderr). With `--report` the JSON also goes to FILE, and findings
end with 0: who reads the report judges it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from include.audit.documents.run import DocumentsAudit
from include.clock import SystemClock
from include.document.definition import definitions
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


def main() -> int:
    """Parse arguments, load the deployment files, audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", dest="topics", action="append", required=True, help="again for another")
    parser.add_argument("--share", type=int, default=1, help="one of so many parts of the keys")
    parser.add_argument("--repair", metavar="ID", default="", help="mend; ID: the same when this is tried again")
    parser.add_argument("--report", type=Path, help="file for the reports as JSON")
    arguments = parser.parse_args()
    reports = []
    try:
        deployment = Deployment.load()
        declared = definitions(deployment)
        spark = session("audit_documents")
        try:
            for topic in arguments.topics:
                audit = DocumentsAudit(
                    spark,
                    deployment,
                    topic,
                    declared[topic],
                    SystemClock(),
                    share=arguments.share,
                    repair=f"{arguments.repair}.{topic}" if arguments.repair else "",
                )
                reports.append(audit.run())
                sys.stdout.write("\n".join([*reports[-1].lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    text = json.dumps({"documents": {each.topic: each.to_json() for each in reports}})
    sys.stdout.write(text + "\n")
    if arguments.report:
        write_atomically(arguments.report, text)
        return 0
    return 1 if any(each.findings for each in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
