"""`lyrebird documents`: assemble one to look at, have a topic written anew, see how far its assembler is."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.clock import SystemClock, iso
from include.errors import SettingsError, Terminal, Transient

if TYPE_CHECKING:
    from include.document.definition import DocumentDefinition
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment

__all__ = ["command"]

_ASK_EVERY_S = 0.5

topic_option = click.option("--topic", required=True, help="The documents' topic, an entry of `documents`.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else, on stdout.")


@click.group(name="documents", help="The assembler of documents: rebuild, inspect.")
def command() -> None:
    """Group of the documents' commands."""


@command.command(name="assemble")
@topic_option
@click.option("--key", required=True, help="The document's id: its key's text, of several parts a JSON array.")
@json_option
def assemble(topic: str, key: str, as_json: bool) -> None:
    """Assemble one document from the database as it is now, and print it with what it was read from.

    Reads only: nothing is written to the log, and the topic may not even exist yet.
    """
    from include.document.assembler import Assembler
    from include.document.definition import database_of
    from include.document.lookup import Source
    from include.document.mysql import MysqlTables
    from include.document.rebuild import parse_key
    from include.document.schema import body_avro, check_columns
    from include.index.body import plain
    from include.record.codec import Decoder, Encoder

    deployment, definition = _definition(topic)
    tables = MysqlTables(database_of(deployment, definition), definition.database)
    sources: list[Source] = []
    try:
        check_columns(definition, tables.columns)
        columns = tables.columns(definition.fact.table)
        numbers = [columns[name].avro() in ("int", "long") for name in definition.fact.key]
        wanted = parse_key(key, numbers)
        with tables.snapshot() as snapshot:
            found = Assembler(definition).assemble(snapshot, [wanted], lambda _, source: sources.append(source))
        schema = body_avro(topic, definition, tables.columns)
    finally:
        tables.close()
    outcome, body = "document", found.documents.get(wanted)
    if wanted in found.incomplete:
        outcome = "incomplete"
    elif wanted in found.skipped:
        outcome = "transient"
    elif body is None:
        outcome = "gone"
    else:
        body = plain(Decoder(lambda _: schema)(Encoder(0, schema)(body)))
    _say_document(key, outcome, body, sources, as_json)
    if outcome == "incomplete":
        missing = found.incomplete[wanted][0]
        raise Terminal("a required row is missing", path=missing.path, table=missing.table, where=dict(missing.where))
    if outcome != "document":
        said = {"transient": "no row of it is in a final state", "gone": "the database has no row of it"}[outcome]
        raise Terminal(f"there is no document: {said}", topic=topic, key=key)


@command.command(name="rebuild")
@topic_option
@click.option("--key", "keys", multiple=True, help="Only this document; may be given several times.")
@click.option("--id", "request_id", help="Id of the request; the same id again asks for nothing new.")
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=0.0, help="Wait so many seconds for its end.")
@json_option
def rebuild(topic: str, keys: tuple[str, ...], request_id: str | None, wait_s: float, as_json: bool) -> None:
    """Ask the running assembler to write all documents anew, or those of some keys.

    Appends a request: the application works it off in chunks beside the live changes, also after a restart.
    """
    from include.log import topics
    from include.log.kafka import KafkaAdmin, KafkaWriter
    from include.log.ports import TopicSpec
    from include.log.requests import Request

    deployment, _ = _definition(topic)
    kafka = _kafka(deployment)
    clock = SystemClock()
    request = Request(
        request_id or uuid.uuid4().hex, "repair" if keys else "rebuild", "lyrebird", clock.now_us(), (), keys
    )
    for name in (topics.requests(topic), topics.answers(topic)):
        KafkaAdmin(kafka.bootstrap, kafka.options).ensure(TopicSpec(name, 1, topics.policy(name)))
    writer = KafkaWriter(kafka.bootstrap, f"request.{request.id}", kafka.options)
    try:
        writer.begin()
        writer.append(topics.requests(topic), request.key(), request.value())
        writer.commit()
    finally:
        writer.close()
    until_s = clock.monotonic_s() + wait_s
    asked = _requests(deployment, topic)[request.id]
    while asked["state"] not in ("done", "refused") and clock.monotonic_s() < until_s:
        clock.sleep(_ASK_EVERY_S)
        asked = _requests(deployment, topic)[request.id]
    _say_request(topic, asked, wait_s, as_json)


@command.command(name="status")
@click.option("--topic", help="Only this topic.")
@json_option
def status(topic: str | None, as_json: bool) -> None:
    """How far the assemblers are: position in the source, how long ago that was, documents, open requests."""
    from include.document.definition import definitions
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    chosen = [topic] if topic else list(definitions(deployment))
    found = [_status(deployment, name) for name in chosen]
    if as_json:
        click.echo(orjson.dumps(found[0] if topic else found).decode())
        return
    for each in found:
        click.echo(f"{each['topic']}: {each['state']}")
        if each["state"] == "started":
            click.echo(
                f"  complete to {each['position']}, committed {each['committed_at']} ({each['age_s']:.0f} s ago)"
            )
            click.echo(f"  offsets {each['records']:,} in {each['partitions']} partitions")
        for request in each["requests"]:
            click.echo(f"  request {request['id']}: {request['state']}, {request['done']:,} documents")


def _definition(topic: str) -> tuple[Deployment, DocumentDefinition]:
    from include.document.definition import definitions
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    found = definitions(deployment)
    if topic not in found:
        raise SettingsError("no such document topic", topic=topic, allowed=sorted(found))
    return deployment, found[topic]


def _kafka(deployment: Deployment) -> Kafka:
    from include.settings.connections import Kafka

    return deployment.one("kafka", Kafka)


def _requests(deployment: Deployment, topic: str) -> dict[str, dict[str, Any]]:
    """How far each request is; those that nobody has answered yet stand as `asked`."""
    from include.log import topics
    from include.log.requests import Answer, Request

    found: dict[str, dict[str, Any]] = {}
    for value in _values(deployment, topics.requests(topic)):
        request = Request.parse(value)
        found[request.id] = {"id": request.id, "state": "asked", "done": 0, "note": ""}
    for value in _values(deployment, topics.answers(topic)):
        answer = Answer.parse(value)
        found[answer.id] = {"id": answer.id, "state": answer.state, "done": answer.done, "note": answer.note}
    return found


def _values(deployment: Deployment, name: str) -> list[bytes]:
    """Values of a topic's records, in order; none when there is no such topic."""
    from include.log.kafka import KafkaAdmin, KafkaReader

    kafka = _kafka(deployment)
    if KafkaAdmin(kafka.bootstrap, kafka.options).describe(name) is None:
        return []
    reader = KafkaReader(kafka.bootstrap, kafka.options)
    try:
        begins, ends = reader.begin_offsets(name), reader.end_offsets(name)
        records = [record for p, end in ends.items() for record in reader.read(name, p, begins[p], end)]
    finally:
        reader.close()
    return [record.value for record in records if record.value is not None]


def _status(deployment: Deployment, topic: str) -> dict[str, Any]:
    from include.log import topics
    from include.log.kafka import KafkaAdmin, KafkaReader
    from include.log.tail import PortTail, ResolvedTail

    kafka = _kafka(deployment)
    admin, reader = KafkaAdmin(kafka.bootstrap, kafka.options), KafkaReader(kafka.bootstrap, kafka.options)
    name = topics.resolved(topic)
    try:
        found = None
        if admin.describe(name) is not None:
            found = ResolvedTail(PortTail(reader, name), name).poll()
    finally:
        reader.close()
    requests = [each for each in _requests(deployment, topic).values() if each["state"] != "done"]
    if found is None:
        return {"topic": topic, "state": "never run", "requests": requests}
    cut, ends = found
    age_us = SystemClock().now_us() - cut.position.commit_us
    return {
        "topic": topic,
        "state": "started",
        "position": str(cut.position.gtids),
        "committed_at": iso(cut.position.commit_us),
        "age_s": round(age_us / 1_000_000, 3),
        "uncovered": list(cut.uncovered),
        "partitions": len(ends),
        "records": sum(ends.values()),
        "requests": requests,
    }


def _say_document(key: str, outcome: str, body: Any, sources: list[Any], as_json: bool) -> None:
    read = [{"path": s.path, "table": s.table, "where": dict(s.where), "rows": s.rows} for s in sources]
    if as_json:
        answer = {"key": key, "outcome": outcome, "document": body if outcome == "document" else None, "sources": read}
        click.echo(orjson.dumps(answer).decode())
        return
    if outcome == "document":
        click.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
    for each in read:
        where = ", ".join(f"{name}={value!r}" for name, value in each["where"].items())
        click.echo(
            f"  {each['path'] or '(the row itself)'}: {each['table']} where {where}: {each['rows']} rows", err=True
        )


def _say_request(topic: str, asked: dict[str, Any], wait_s: float, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(asked).decode())
    else:
        click.echo(f"request {asked['id']}: {asked['state']}, {asked['done']:,} documents")
    if asked["state"] == "refused":
        raise Terminal("the request was refused", id=asked["id"], note=asked["note"])
    if wait_s and asked["state"] != "done":
        raise Transient(
            "the request is not done yet",
            id=asked["id"],
            state=asked["state"],
            waited_s=wait_s,
            fix=f"See `lyrebird documents status --topic {topic}`; does the assembler run?",
        )
