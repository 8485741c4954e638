"""`lyrebird join rebuild`: ask a running join to be made anew."""

from __future__ import annotations

import uuid

import click
import orjson

from include.cli.json_option import json_option
from include.clock import SystemClock
from include.errors import Terminal, Transient
from include.log.requests.asking import answer_to, ask
from include.log.requests.records import Request
from include.settings.completion import names_of
from include.settings.connections import Kafka
from include.settings.deployment import Deployment

__all__ = ["command"]

_ASK_EVERY_S = 0.5


@click.command(name="rebuild")
@click.argument("name", shell_complete=names_of("joins"))
@click.option("--outputs", is_flag=True, help="Read nothing: write all outputs again, of the rows that the state has.")
@click.option("--id", "request_id", help="Id of the request; the same id again asks for nothing new.")
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=0.0, help="Wait so many seconds for its end.")
@json_option()
def command(name: str, outputs: bool, request_id: str | None, wait_s: float, as_json: bool) -> None:
    """Ask the join NAME to read all its inputs from their beginnings, and to write all outputs again.

    Appends a request: the application carries it out beside live changes, also after a restart. `lyrebird join status`
    tells how far it is; with --wait the exit code says whether it was done in time.
    """
    from include.join.config.deployed import declared_joins
    from include.settings.names import require_known

    deployment = Deployment.load()
    joins = declared_joins(deployment)
    require_known(name, joins, "no join of this name is declared")
    kafka, topic, clock = deployment.one("kafka", Kafka), joins[name].topic, SystemClock()
    id_ = request_id or uuid.uuid4().hex
    ask(kafka, topic, Request(id_, "repair" if outputs else "rebuild", "lyrebird", clock.now_us()))
    until_s = clock.monotonic_s() + wait_s
    answer = answer_to(kafka, topic, id_)
    while (answer is None or answer.state not in ("done", "refused")) and clock.monotonic_s() < until_s:
        clock.sleep(_ASK_EVERY_S)
        answer = answer_to(kafka, topic, id_)
    state = "asked" if answer is None else answer.state
    note = "" if answer is None else answer.note
    told = {"id": id_, "topic": topic, "state": state, "note": note}
    click.echo(orjson.dumps(told).decode() if as_json else f"request {id_} for {topic}: {state}{note and f', {note}'}")
    if state == "refused":
        raise Terminal("the request was refused", id=id_, note=note, fix="Ask again, with another --id.")
    if wait_s and state != "done":
        raise Transient(
            "the request is not done yet",
            id=id_,
            state=state,
            waited_s=wait_s,
            fix=f"See `lyrebird join status {name}`; does `{joins[name].entry.application}` run?",
        )
