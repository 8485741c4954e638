"""`lyrebird documents check`: does the database have what documents are read by?"""

from __future__ import annotations

import click
import orjson

from include.cli.documents.options import chosen, topic_option
from include.cli.json_option import json_option
from include.document.definition import database_of
from include.document.indexes import looked_up, unindexed
from include.document.reading.mysql import MysqlTables
from include.document.schema import check_columns
from include.errors import Terminal

__all__ = ["command"]


@click.command(name="check")
@topic_option
@json_option()
def command(topic: str | None, as_json: bool) -> None:
    """Ask the database for tables, columns and indexes that documents are read by.

    Reads only. Names the tables too that are read and not heard, as a change of their rows alone alters no document.
    Exit code 1 where rows are looked up by columns without an index.
    """
    deployment, topic, definition = chosen(topic)
    server = database_of(deployment, definition)
    tables = MysqlTables(server, definition.database)
    try:
        check_columns(definition, tables.columns)
        lacking = unindexed(definition, tables.indexed)
    finally:
        tables.close()
    if as_json:
        values = [{"table": e.table, "columns": list(e.columns), "why": e.why, "fix": e.fix} for e in lacking]
        click.echo(
            orjson.dumps(
                {
                    "topic": topic,
                    "looked_up": len(looked_up(definition)),
                    "unindexed": values,
                    "unheard": definition.unheard(),
                    "masked": definition.masks.lines(),
                    "unmasked": list(definition.masks.unmasked),
                }
            ).decode()
        )
    else:
        for each in lacking:
            click.echo(f"no index: {each.table} by {', '.join(each.columns)}, for {each.why}: {each.fix};")
        for table in definition.unheard():
            click.echo(f"not heard: {table}; a change of its rows alone alters no document (`signals`, `corrected`)")
        if line := definition.masks.told():
            click.echo(f"{topic}: {line}")
        if not lacking:
            click.echo(f"{topic}: rows of {len(looked_up(definition))} tables and columns are found by an index")
    if lacking:
        raise Terminal(
            "rows are looked up by columns without an index: each batch reads the table whole",
            server=server.place,
            table=lacking[0].table,
            columns=list(lacking[0].columns),
            unindexed=len(lacking),
            fix="; ".join(each.fix for each in lacking) + ".",
        )
