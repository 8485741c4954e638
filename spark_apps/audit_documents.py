"""Compares the documents of topics with the database, once, and ends.

    spark-submit spark_apps/audit_documents.py --topic assembled_order [--sample 16] [--repair ID] [--report FILE]

With `--repair` the running assembler writes anew what is wrong, once for the same ID; then it is looked at again.
Prints findings and the next command, then all reports as JSON on the last line. Ends with 0 when nothing is wrong, 1
with findings, 2 when it cannot be said (one line on stderr), 4 when nothing is there yet. With `--report` the JSON also
goes to FILE, and findings, or nothing, end with 0: who reads the report judges it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from include.audit.documents.run import DocumentsAudit
from include.audit.documents.run_params import DocumentsAuditRun
from include.audit.nothing import exit_status
from include.clock import SystemClock
from include.document.definition import definitions
from include.errors import LyrebirdError
from include.log.running.batches_spark import session
from include.metrics.exporter import write_atomically
from include.settings.deployment import Deployment


# `--share` is the older spelling of `--sample`: that of tasks begun before.
@click.command(
    help=__doc__, context_settings={"token_normalize_func": lambda word: "sample" if word == "share" else word}
)
@DocumentsAuditRun.options("topics", required=True)
@DocumentsAuditRun.options("share", default=1)
@click.option("--repair", metavar="ID", default="", help="Mend; ID: the same when this is tried again.")
@click.option("--report", type=click.Path(path_type=Path), help="File for the reports as JSON.")
def main(topics: tuple[str, ...], share: int, repair: str, report: Path | None) -> None:
    """Load the deployment files, audit; ends with the exit code."""
    reports = []
    try:
        deployment = Deployment.load()
        declared = definitions(deployment)
        spark = session("audit_documents")
        try:
            for topic in topics:
                audit = DocumentsAudit(
                    spark,
                    deployment,
                    topic,
                    declared[topic],
                    SystemClock(),
                    share=share,
                    repair=f"{repair}.{topic}" if repair else "",
                )
                reports.append(audit.judged_or_nothing())
                sys.stdout.write("\n".join([*reports[-1].lines(), ""]))
        finally:
            spark.stop()
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    text = json.dumps({"documents": {each.topic: each.to_json() for each in reports}})
    sys.stdout.write(text + "\n")
    if report:
        write_atomically(report, text)
    sys.exit(0 if report else exit_status(reports))


if __name__ == "__main__":
    main()
