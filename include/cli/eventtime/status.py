"""`lyrebird eventtime status`: how far jobs are, and who holds them back."""

from __future__ import annotations

import click

from include.cli.json_option import json_option
from include.cli.status_options import tell_status
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="status")
@click.argument("name", required=False, shell_complete=names_of("eventtime"))
@json_option()
def command(name: str | None, as_json: bool) -> None:
    """How far the job NAME is, or all: watermark, the partition that holds it back, what is buffered, what was late."""
    from include.eventtime.config.definition import declared_jobs
    from include.eventtime.status import job_status

    tell_status("job", declared_jobs, job_status, name, as_json=as_json)
