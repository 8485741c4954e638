"""`lyrebird search ENTITY ID`: one document from the index, as fresh as it is acknowledged."""

from __future__ import annotations

import sys

import click
import orjson

from include.errors import SettingsError
from include.index.definition import declared_indexes
from include.index.elasticsearch import ElasticsearchIndex
from include.search.one import find_one
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["command"]


@click.command(name="search", short_help="Ask the index for one document.")
@click.argument("entity")
@click.argument("doc_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line, nothing else.")
def command(entity: str, doc_id: str, as_json: bool) -> None:
    """Print the document of ENTITY with key ID, e.g. `lyrebird search order 4711`; exit code 1 when there is none."""
    deployment = Deployment.load()
    indexes = declared_indexes(deployment)
    alias = next((name for name, definition in indexes.items() if definition.entity == entity), None)
    if alias is None:
        allowed = sorted({definition.entity for definition in indexes.values()})
        raise SettingsError("no index holds this entity", entity=entity, allowed=allowed)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    answer = find_one(index, alias, entity, doc_id)
    if answer is None:
        click.echo(f"error: {entity} {doc_id} is not in index {alias}", err=True)
        sys.exit(1)
    found = {entity: answer.body, "metadata": answer.metadata}
    click.echo(orjson.dumps(found, option=None if as_json else orjson.OPT_INDENT_2).decode())
