"""`lyrebird eventtime status`: how far jobs are, and who holds them back."""

from __future__ import annotations

import click
import orjson

__all__ = ["command"]


@click.command(name="status")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def command(name: str | None, as_json: bool) -> None:
    """How far the job NAME is, or all: watermark, the partition that holds it back, what is buffered, what was late."""
    from include.eventtime.config.definition import declared_jobs
    from include.eventtime.status import job_status
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.names import require_known

    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka)
    jobs = declared_jobs(deployment)
    if name is not None:
        require_known(name, jobs, "no job of this name is declared")
    reader, admin = KafkaReader(kafka.bootstrap, kafka.options), KafkaAdmin(kafka.bootstrap, kafka.options)
    try:
        found = [job_status(job, reader, admin) for each, job in jobs.items() if name in (None, each)]
    finally:
        reader.close()
    if as_json:
        click.echo(orjson.dumps({"jobs": [each.to_json() for each in found]}).decode())
    else:
        click.echo("\n".join(line for each in found for line in each.lines()) or "no job is declared")
