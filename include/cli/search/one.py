"""`lyrebird search ENTITY ID`: one document."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson

from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.search.options import written_option
from include.clock import SystemClock
from include.errors import SettingsError, Terminal
from include.index.definition import declared_indexes
from include.index.identity import index_id
from include.index.server.elasticsearch import ElasticsearchIndex
from include.search.connect import connect
from include.search.definition import declared_searches, targets
from include.search.one import find_one
from include.settings.completion import names_of
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["command"]


@click.command(name="one")
@click.argument("entity", shell_complete=names_of("searches"))
@click.argument("doc_id", metavar="ID")
@written_option
@json_option()
def command(entity: str, doc_id: str, written: str | None, as_json: bool) -> None:
    """Print the document of ENTITY with key ID, e.g. `lyrebird search order 4711`; exit code 1 when there is none.

    It is read as the index has acknowledged it, also before searches see it. With --written the database is asked when
    the index does not have that write yet.
    """
    deployment = Deployment.load()
    found, places = _fresh(deployment, entity, doc_id, written) if written else _indexed(deployment, entity, doc_id)
    if found is None:
        tell_error(Terminal(f"{entity} {doc_id} is not in {places}"))
        sys.exit(1)
    click.echo(orjson.dumps(found, option=None if as_json else orjson.OPT_INDENT_2).decode())


def _indexed(deployment: Deployment, entity: str, doc_id: str) -> tuple[dict[str, Any] | None, str]:
    """The whole document of any index, declared as a search or not."""
    indexes = declared_indexes(deployment)
    places = [
        (alias, topic, len(index.topics) > 1)
        for alias, index in indexes.items()
        for topic, each in index.topics.items()
        if each.entity == entity
    ]
    if not places:
        allowed = sorted({each for definition in indexes.values() for each in definition.entities})
        raise SettingsError("no index holds this entity", entity=entity, allowed=allowed)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    for alias, topic, shared in places:
        answer = find_one(index, alias, entity, index_id(topic, doc_id) if shared else doc_id)
        if answer is not None:
            return {entity: answer.body, "metadata": answer.metadata}, alias
    return None, " or ".join(f"index {alias}" for alias, _, _ in places)


def _fresh(deployment: Deployment, entity: str, doc_id: str, written: str) -> tuple[dict[str, Any] | None, str]:
    names = [name for name, search in declared_searches(deployment).items() if search.entity == entity]
    if not names:
        raise SettingsError(
            "no search is declared for this entity",
            entity=entity,
            fix="Declare one in the section `searches`, or leave --written out.",
        )
    hit, seen = connect(deployment, targets(deployment)[names[0]], SystemClock()).one(doc_id, written)
    click.echo(seen.line(), err=True)
    found = {entity: hit.body, "seen": seen.to_json()} if hit is not None else None
    return found, "the database" if seen.fresh else "the index, which may not have that write yet"
