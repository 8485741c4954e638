"""Stores what the log has now of groups of the lake, and ends; it may run beside the applications that write them.

    spark-submit spark_apps/lake_upload.py --group raw [--group by_date] [--flush]

What is due by the groups' policy is stored, with --flush all there is. Prints a line for each group. Ends with 0 when
that is done, 3 when a newer revision of a group has taken over, 1 after any other error (one line on stderr).
"""

from __future__ import annotations

import sys

import click

from include.errors import Fenced, LyrebirdError
from include.lake.groups_spark import upload
from include.lake.incidents.incidents import ending_told
from include.lake.run_params import UPLOADS, UploadRun
from include.log.running.application import log_to_stderr
from include.settings.deployment import Deployment


@click.command(help=__doc__)
@UploadRun.options("groups", required=True)
@UploadRun.options("flush")
def main(groups: tuple[str, ...], flush: bool) -> None:
    """Load the deployment files, store; ends with the exit code."""
    log_to_stderr()
    try:
        with ending_told(UPLOADS, again=True):
            reports = upload(groups, Deployment.load(), flush=flush)
    except LyrebirdError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(3 if isinstance(error, Fenced) else 1)
    sys.stdout.writelines(f"{report}\n" for report in reports)
    sys.exit(0)


if __name__ == "__main__":
    main()
