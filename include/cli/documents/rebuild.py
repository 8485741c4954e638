"""`lyrebird documents rebuild`: ask the running assembler to write documents anew."""

from __future__ import annotations

import uuid

import click
import orjson

from include.cli.documents.options import ShownRequest, chosen, read_requests, topic_option
from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import Terminal, Transient
from include.log.requests.asking import ask
from include.log.requests.records import Request
from include.settings.connections import Kafka

__all__ = ["command"]

_ASK_EVERY_S = 0.5
_SAY_EVERY_S = 3.0


@click.command(name="rebuild")
@topic_option
@click.option("--key", "keys", multiple=True, help="Only this document; may be given several times.")
@click.option("--id", "request_id", help="Id of the request; the same id again asks for nothing new.")
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=0.0, help="Wait so many seconds for its end.")
@json_option()
def command(topic: str | None, keys: tuple[str, ...], request_id: str | None, wait_s: float, as_json: bool) -> None:
    """Ask the running assembler to write all documents anew, or those of some keys.

    Appends a request: the application works it off in chunks beside the live changes, also after a restart. With
    --wait its progress is told meanwhile, and the exit code says whether it was done in time.
    """
    deployment, topic, definition = chosen(topic)
    clock = SystemClock()
    id_ = request_id or uuid.uuid4().hex
    request = Request(id_, "repair" if keys else "rebuild", "lyrebird", clock.now_us(), keys=keys)
    ask(deployment.one("kafka", Kafka), topic, request)

    def look() -> ShownRequest:
        return next(each for each in read_requests(deployment, topic, definition, clock) if each.id == id_)

    asked = look()
    until_s, said_s = clock.monotonic_s() + wait_s, clock.monotonic_s()
    while asked.state not in ("done", "refused") and clock.monotonic_s() < until_s:
        clock.sleep(_ASK_EVERY_S)
        asked = look()
        if clock.monotonic_s() - said_s >= _SAY_EVERY_S:
            said_s = clock.monotonic_s()
            click.echo(asked.line(), err=True)
    click.echo(orjson.dumps(asked.to_json()).decode() if as_json else asked.line())
    if asked.state == "refused":
        raise Terminal("the request was refused", id=id_, note=asked.note, fix="Ask again, with another --id.")
    if wait_s and asked.state != "done":
        raise Transient(
            "the request is not done yet",
            id=id_,
            state=asked.state,
            waited_s=wait_s,
            fix=f"See `lyrebird documents status --topic {topic}`; does `{definition.application}` run?",
        )
