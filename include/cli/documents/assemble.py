"""`lyrebird documents assemble`: one document as the database makes it now, with what it was read from."""

from __future__ import annotations

from typing import Any

import click
import orjson

from include.cli.documents.options import chosen, topic_option
from include.cli.json_option import json_option
from include.document.assembler import AssembledChunk, Assembler
from include.document.definition import database_of
from include.document.reading.lookup import PartSource
from include.document.reading.mysql import MysqlTables
from include.document.rebuild import parse_key
from include.document.schema import body_avro, check_columns
from include.errors import InvalidRecord, SettingsError, Terminal
from include.record.codec import Decoder, Encoder
from include.record.json.body import plain

__all__ = ["command"]


@click.command(name="assemble")
@topic_option
@click.option("--key", required=True, help="The document's id: its key's text, of several parts a JSON array.")
@json_option()
def command(topic: str | None, key: str, as_json: bool) -> None:
    """Assemble one document from the database as it is now, and print it with what it was read from.

    Reads only: nothing is written to the log, and the topic may not even exist yet. Reads where the assembler reads.
    """
    deployment, topic, definition = chosen(topic)
    tables = MysqlTables(database_of(deployment, definition), definition.database)
    sources: list[PartSource] = []
    try:
        check_columns(definition, tables.columns)
        columns = tables.columns(definition.fact.table)
        numbers = [columns[name].avro() in ("int", "long") for name in definition.fact.key]
        try:
            wanted = parse_key(key, numbers)
        except InvalidRecord as error:
            form = "an integer" if numbers == [True] else "a text" if numbers == [False] else "a JSON array"
            raise SettingsError(
                "no key of these documents", key=key, columns=definition.fact.key, fix=f"Give {form}."
            ) from error
        with tables.snapshot() as snapshot:
            assembled = Assembler(definition).assemble(snapshot, [wanted], lambda _, source: sources.append(source))
        schema = body_avro(topic, definition, tables.columns)
    finally:
        tables.close()
    outcome, refusal = _outcome(topic, key, wanted, assembled)
    body = None
    if refusal is None:
        # By way of Avro: what does not fit is refused here too, and shown is what readers of the topic get.
        body = plain(Decoder(lambda _: schema)(Encoder(0, schema)(assembled.documents[wanted])))
    _say(key, outcome, body, sources, as_json)
    if refusal is not None:
        raise refusal


def _outcome(topic: str, key: str, wanted: tuple[Any, ...], found: AssembledChunk) -> tuple[str, Terminal | None]:
    if wanted in found.incomplete:
        missing = found.incomplete[wanted][0]
        return "incomplete", Terminal(
            "a required row is missing",
            path=missing.path,
            table=missing.table,
            where=dict(missing.where),
            fix="Bring the row, or declare the look-up `required: false`.",
        )
    if wanted in found.failed:
        return "failed", Terminal("a hook cannot deal with it", topic=topic, key=key, reason=found.failed[wanted])
    if wanted in found.skipped:
        return "transient", Terminal("there is no document: no row of it is in a final state", topic=topic, key=key)
    if found.documents[wanted] is None:
        return "gone", Terminal("there is no document: the database has no row of it", topic=topic, key=key)
    return "document", None


def _say(key: str, outcome: str, body: Any, sources: list[PartSource], as_json: bool) -> None:
    if as_json:
        read = [{"path": s.path, "table": s.table, "where": dict(s.where), "rows": s.rows} for s in sources]
        click.echo(orjson.dumps({"key": key, "outcome": outcome, "document": body, "sources": read}).decode())
        return
    if body is not None:
        click.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
    for each in sources:
        where = ", ".join(f"{name}={value!r}" for name, value in each.where.items())
        rows = f"{each.rows} row{'' if each.rows == 1 else 's'}"
        click.echo(f"  {each.path or '(the row itself)'}: {each.table} where {where}: {rows}", err=True)
