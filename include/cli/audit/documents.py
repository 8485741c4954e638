"""`lyrebird audit documents`: a topic's documents against the database that they are assembled from."""

from __future__ import annotations

import sys
import uuid

import click
import orjson

from include.audit.documents.run_params import MOST_SHARES, DocumentsAuditRun
from include.cli.audit.options import Share
from include.cli.colours import painted
from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.settings.completion import names_of

__all__ = ["command"]

CANNOT_AUDIT = 2


@click.command(name="documents")
@click.argument("topic", required=False, shell_complete=names_of("documents"))
@DocumentsAuditRun.options("share", type=Share(MOST_SHARES), default="1/1", metavar="1/N")
@DocumentsAuditRun.options("repair")
@json_option("Print one JSON object with the findings, nothing else.")
def command(topic: str | None, share: int, repair: bool, as_json: bool) -> None:
    """Assemble the documents of TOPIC anew and compare them with the newest in the topic.

    TOPIC is an entry of `documents`, and may be left out where there is one. Changes nothing unless --repair is given,
    and may run under load: what differs is judged again, alone, until it keeps still. Names documents that the topic
    lacks (missing), that it alone has (extra), or that are otherwise there (altered; stale, where they show tables
    whose changes signal nothing), with the fields that differ and the tables of these. Exit code: 0 nothing is wrong
    (after the repair, if one was asked for), 1 findings, 2 it cannot be said, 4 no document is there yet.
    """
    from include.audit.documents.run import DocumentsAudit
    from include.audit.nothing import exit_status
    from include.cli.documents.options import chosen
    from include.clock import SystemClock
    from include.errors import LyrebirdError
    from include.log.running.batches_spark import session

    try:
        deployment, topic, definition = chosen(topic)
        spark = session("audit_documents")
        try:
            report = DocumentsAudit(
                spark,
                deployment,
                topic,
                definition,
                SystemClock(),
                share=share,
                repair=str(uuid.uuid4()) if repair else "",
                say=lambda text: click.echo(text, err=True),
            ).judged_or_nothing()
        finally:
            spark.stop()
    except LyrebirdError as error:
        tell_error(error)
        sys.exit(CANNOT_AUDIT)
    click.echo(orjson.dumps(report.to_json()).decode() if as_json else painted("\n".join(report.lines())))
    sys.exit(exit_status([report]))
